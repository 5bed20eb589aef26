import { MIGRATE_FIRST } from '../../db/database-errors.ts';
import type { Database } from '../../db/database.ts';
import { pendingMigrations } from '../../db/migrate.ts';

/** Throws if migrations are pending, and says how to run them. */
export async function expectMigrated(database: Database): Promise<void> {
  const pending = await database.asMaintenance(pendingMigrations);
  if (pending.length === 0) return;
  const remedy = database.kind === 'pglite' ? 'Start Drover on its data directory first.' : MIGRATE_FIRST;
  throw new Error(`The database lacks ${pending.length} migrations. ${remedy}`);
}
