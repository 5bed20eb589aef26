/** For scripts that work on all data of an installation. */
import { existsSync } from 'node:fs';
import type { Config } from '../../config.ts';
import type { Database } from '../../db/database.ts';
import { clusterIn } from '../../db/embedded.ts';
import { openDatabase } from '../../db/open-database.ts';
import { expectMigrated } from './expect-migrated.ts';

/** Connects to an installation's database. Throws if there is none: it never starts one. */
export async function openExisting(config: Config): Promise<Database> {
  if (config.mode === 'embedded' && !existsSync(clusterIn(config.dataDir) ?? ''))
    throw new Error(`DROVER_DATA_DIR is ${config.dataDir}, where there is no data: Drover was never started there.`);
  const onWait = (message: string) => void process.stderr.write(`${message}\n`);
  const database = await openDatabase(config, { onWait });
  try {
    await expectMigrated(database);
    return database;
  } catch (error) {
    await database.close();
    throw error;
  }
}
