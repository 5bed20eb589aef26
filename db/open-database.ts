import type { Database, DatabaseOptions, DatabaseSettings } from './database.ts';
import { openEmbedded } from './embedded.ts';
import { openPostgres } from './postgres.ts';

/**
 * Connects, and checks that row level security holds for both roles; does not migrate (`migrate`).
 * @throws DatabaseRoleError if a role is missing or bypasses row level security, DataDirLockedError if another process holds
 * the data directory, the driver's error if the server cannot be reached.
 */
export function openDatabase(settings: DatabaseSettings, options: DatabaseOptions = {}): Promise<Database> {
  return settings.databaseUrl === undefined
    ? openEmbedded(settings.dataDir, options)
    : openPostgres(
        { url: settings.databaseUrl, poolUrl: settings.databasePoolUrl, poolSize: settings.poolSize },
        options,
      );
}
