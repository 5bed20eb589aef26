/** Writes db/schema.sql, the result of all migrations, so that a diff shows changes of the schema. */
import { writeFile } from 'node:fs/promises';
import { loadConfig } from '../config.ts';
import { migrate } from '../db/migrate.ts';
import { openDatabase } from '../db/open-database.ts';
import { describeSchema } from '../db/describe-schema.ts';
import { runOnce } from '../modules/platform/run-once.ts';

const HEADER = '-- Made by `npx tsx scripts/dump-schema.ts` from db/migrations. A listing to read, not to run.\n\n';

await runOnce(async () => {
  const config = loadConfig({ DROVER_DATA_DIR: 'memory:' });
  const database = await openDatabase(config);
  try {
    await migrate(config, database);
    await writeFile(new URL('../db/schema.sql', import.meta.url), HEADER + (await database.asOwner(describeSchema)));
  } finally {
    await database.close();
  }
}, []);
