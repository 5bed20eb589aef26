import { existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { syncFolder, syncNames } from '../lib/sync-folder.ts';
import { DataDirError } from './data-dir-error.ts';

/** On disks of their own. */
const NOT_OURS = 'lost+found';

/**
 * Prepares a folder that has no database, or one that was not finished, for a new one: the function, to be called when it
 * is made, puts it on the disk. Undefined if there is a database.
 * @throws DataDirError for a folder with files that are no whole database: PGlite would make a new one over them.
 */
export async function beginCluster(cluster: string): Promise<(() => Promise<void>) | undefined> {
  const dataDir = dirname(cluster);
  // PGlite puts the file that tells a database among the last ones there.
  const begun = `${cluster}.begun`;
  const version = join(cluster, 'PG_VERSION');
  if (!existsSync(begun)) {
    if (existsSync(version)) return undefined;
    if (holdsFiles(cluster)) throw new DataDirError(dataDir, sayWithout(cluster, version), undefined);
    writeFileSync(begun, '', { mode: 0o600 });
    await syncNames(dataDir);
  }
  return async () => {
    await syncFolder(cluster);
    await syncPlaceOf(cluster);
    rmSync(begun, { force: true });
  };
}

/** Syncs that there is a database in this data directory, which may be new itself. */
export async function syncPlaceOf(cluster: string): Promise<void> {
  const dataDir = dirname(cluster);
  await syncNames(dataDir);
  await syncNames(dirname(dataDir));
}

function holdsFiles(cluster: string): boolean {
  return existsSync(cluster) && readdirSync(cluster).some((name) => name !== NOT_OURS);
}

const sayWithout = (cluster: string, version: string) =>
  `${cluster} has files, but no ${version}, as where a restore has broken off. ` +
  'Restore all of it, or move it away for a new database';
