import { runMigrations } from 'bullmq';
import createKnex from 'knex';
import type { Knex } from 'knex';
import type { ClientBase } from 'pg';
import { DatabaseRoleError } from './database-errors.ts';
import type { Database, DatabaseSettings, Tx } from './database.ts';
import { openEmbedded } from './embedded.ts';
import {
  applyFunctions,
  FUNCTIONS_TABLE,
  outdatedFunctions,
  READ_FUNCTIONS,
  type AppliedFunctions,
} from './functions.ts';
import { listMigrations, loadMigration } from './load-migrations.ts';
import { withOwnerClient } from './postgres.ts';
import { lockAllTables } from './lock-tables.ts';
import { ensureRoles } from './roles.ts';
import { MAINTENANCE_ROLE, QUEUE_SCHEMA } from './connection-owner.ts';

/** An arbitrary number, the same in all releases, so that they exclude each other. */
const MIGRATION_LOCK = 7_236_419_001;
const HISTORY_TABLE = 'schema_migrations';

/**
 * Updates the schema, and returns the names of what was applied: roles, pgvector, BullMQ's schema, `db/migrations`, and
 * changed files of `db/functions`. If two processes do this at once, the second waits. Runs in `database` if given, as needed
 * for an open embedded one, otherwise on a separate connection.
 * @throws DatabaseRoleError if the database's user lacks a right, with what an administrator can run.
 */
export async function migrate(
  settings: Pick<DatabaseSettings, 'databaseUrl' | 'dataDir'>,
  database?: Database,
): Promise<string[]> {
  if (database !== undefined) return database.asOwner(migrateOn);
  if (settings.databaseUrl !== undefined) return withOwnerClient(settings.databaseUrl, migrateOn);
  const embedded = await openEmbedded(settings.dataDir, {});
  try {
    return await embedded.asOwner(migrateOn);
  } finally {
    await embedded.close();
  }
}

/** Names of migrations of this release not applied to the database, and of function files that differ. */
export async function pendingMigrations(tx: Tx): Promise<string[]> {
  const exists = async (table: string) => {
    const [row] = await tx.query<{ found: boolean }>('select to_regclass($1) is not null as found', [table]);
    return row?.found === true;
  };
  const applied = (await exists(HISTORY_TABLE))
    ? await tx.query<{ name: string }>(`select name from ${HISTORY_TABLE}`)
    : [];
  const names = new Set(applied.map((row) => row.name));
  const pending = (await listMigrations()).filter((name) => !names.has(name));
  if (await isOfNewerBuild(applied)) return pending;
  const functions = (await exists(FUNCTIONS_TABLE)) ? await tx.query<AppliedFunctions>(READ_FUNCTIONS) : [];
  return [...pending, ...(await outdatedFunctions(functions)).map(({ name }) => name)];
}

/** Whether a newer build has migrated the database: its functions fit its schema, older ones may not. */
async function isOfNewerBuild(applied: readonly { name: string }[]): Promise<boolean> {
  const known = new Set(await listMigrations());
  return applied.some(({ name }) => !known.has(name));
}

async function migrateOn(client: ClientBase): Promise<string[]> {
  await client.query('select pg_advisory_lock($1)', [MIGRATION_LOCK]);
  try {
    await ensureRoles(client);
    await ensureVector(client);
    await runMigrations(client, QUEUE_SCHEMA);
    const migrations = await runKnex(client);
    const { rows } = await client.query<{ name: string }>(`select name from ${HISTORY_TABLE}`);
    return (await isOfNewerBuild(rows)) ? migrations : [...migrations, ...(await applyFunctions(client))];
  } finally {
    await client.query('select pg_advisory_unlock($1)', [MIGRATION_LOCK]);
  }
}

async function ensureVector(client: ClientBase): Promise<void> {
  try {
    await client.query('create extension if not exists vector');
  } catch (error) {
    const code: unknown = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === '42501') {
      const remedy = 'CREATE EXTENSION vector';
      throw new DatabaseRoleError(
        `The database user may not add pgvector. An administrator can run: ${remedy};`,
        error,
      );
    }
    if (code === '0A000' || code === '58P01') {
      throw new Error('The database server has no pgvector. Install it there (package postgresql-NN-pgvector).', {
        cause: error,
      });
    }
    throw error;
  }
}

async function runKnex(client: ClientBase): Promise<string[]> {
  const knex = createKnex({ client: 'pg', connectionPool: poolOfOne(client), log: SILENT });
  try {
    const migrations = {
      tableName: HISTORY_TABLE,
      migrationSource: migrationSource(),
      // An older release on a newer database, as in a rolling deploy, has nothing to do here, which is not an error.
      disableMigrationsListValidation: true,
    };
    // Knex's own lock is a row that killed processes leave behind; the advisory lock above is the real one.
    await knex.migrate.forceFreeMigrationsLock(migrations);
    const [, applied]: [number, string[]] = await knex.migrate.latest(migrations);
    return applied;
  } finally {
    await knex.destroy();
    // Also after a failed migration, so that `pendingMigrations` works for other processes.
    await client.query(`do $$ begin
      grant select on ${HISTORY_TABLE} to ${MAINTENANCE_ROLE};
    exception when undefined_table then null; end $$`);
  }
}

/** Knex also throws what it would print. */
const SILENT: Knex.Logger = { warn: () => undefined, error: () => undefined, deprecate: () => undefined };

/** All pending migrations form one transaction, which starts by locking tables. */
function migrationSource(): Knex.MigrationSource<string> {
  let isLocked = false;
  return {
    getMigrations: listMigrations,
    getMigrationName: (name) => name,
    getMigration: async (name) => ({
      up: async (knex) => {
        if (!isLocked) await lockAllTables(knex);
        isLocked = true;
        await (await loadMigration(name)).up(knex);
      },
      down: async () => {
        throw new Error(`${name} cannot be undone: migrations go forward only.`);
      },
    }),
  };
}

/** Lets Knex use the connection that holds the lock, one user at a time. */
function poolOfOne(client: ClientBase): Knex.PgPoolLike {
  let last: Promise<void> = Promise.resolve();
  return {
    totalCount: 1,
    idleCount: 0,
    waitingCount: 0,
    async connect() {
      const before = last;
      let free: () => void = () => undefined;
      last = new Promise<void>((resolve) => {
        free = resolve;
      });
      await before;
      return { query: client.query.bind(client), release: free };
    },
    end: async () => undefined,
  };
}
