import { runMigrations } from 'bullmq';
import createKnex from 'knex';
import type { Knex } from 'knex';
import type { ClientBase } from 'pg';
import { DatabaseRoleError } from './database-errors.ts';
import type { Database, DatabaseSettings } from './database.ts';
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
import { MAINTENANCE_ROLE, QUEUE_SCHEMA } from './session.ts';

/** Any number of its own; the same in all releases, so that two of them wait for each other. */
const MIGRATION_LOCK = 7_236_419_001;
const HISTORY_TABLE = 'schema_migrations';

/**
 * Brings the schema up to date and gives the names of what was applied: roles, pgvector, BullMQ's own schema,
 * `db/migrations`, and `db/functions` where their text has changed. Two processes may do it at once; the second waits. With `database` it runs there, which an embedded
 * one that is open needs; without, on a connection of its own.
 * @throws DatabaseRoleError where the database's user lacks a right, with what an administrator can run.
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

/** Names of the migrations that this release knows and the database has not seen, and of files of functions that it has otherwise. */
export async function pendingMigrations(database: Database): Promise<string[]> {
  return database.asMaintenance(async (tx) => {
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
  });
}

/** Whether a build that knows more migrations has been here: its functions fit its schema, and older ones may not. */
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
      // An older release beside a newer database, as in a rolling deploy, has nothing to do here; it is not a fault.
      disableMigrationsListValidation: true,
    };
    // Knex's own lock is a row that a killed process leaves behind; the advisory lock above is the real one.
    await knex.migrate.forceFreeMigrationsLock(migrations);
    const [, applied]: [number, string[]] = await knex.migrate.latest(migrations);
    return applied;
  } finally {
    await knex.destroy();
    // Where a migration has failed too: `pendingMigrations` shall tell the others.
    await client.query(`do $$ begin
      grant select on ${HISTORY_TABLE} to ${MAINTENANCE_ROLE};
    exception when undefined_table then null; end $$`);
  }
}

/** Knex prints what it also throws. */
const SILENT: Knex.Logger = { warn: () => undefined, error: () => undefined, deprecate: () => undefined };

/** All that are pending are one transaction, which begins with the tables. */
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

/** Knex as a guest on the connection that holds the lock, one user at a time. */
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
