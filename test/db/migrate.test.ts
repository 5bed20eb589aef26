import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { loadConfig, type Config } from '../../config.ts';
import { migrate, pendingMigrations } from '../../db/migrate.ts';
import { openDatabase } from '../../db/open-database.ts';
import { DatabaseRoleError } from '../../db/database-errors.ts';
import { listMigrations, loadMigration } from '../../db/load-migrations.ts';
import { backOffModelRate, readModelBackOff } from '../../db/model-rates.ts';
import { withOwnerClient } from '../../db/postgres.ts';
import { checkRoles } from '../../db/connection-owner.ts';
import { createTestDatabase, openTestDatabase } from '../support/database.ts';
import { MODES } from '../support/modes.ts';

const PASSWORD = 'only-for-a-moment';
const FUNCTIONS = readdirSync('db/functions').toSorted();
const NAMES = [...(await listMigrations()), ...FUNCTIONS.map((file) => `functions/${file}`)];

describe('migrate', () => {
  it('finds every migration by its file, in the order of their numbers, of which each is there once', async () => {
    const migrations = await Promise.all(NAMES.filter((name) => !name.startsWith('functions/')).map(loadMigration));
    const numbers = migrations.map(({ name }) => name.slice(0, 4));
    assert.ok(numbers.length >= 60, `${numbers.length} migrations`);
    assert.deepEqual(numbers, [...new Set(numbers)].toSorted());
    await assert.rejects(loadMigration('migration'), /has no migration of this name/);
  });

  it('brings an embedded database up to date, once', async () => {
    const config = loadConfig({ DROVER_DATA_DIR: 'memory:' });
    const database = await openDatabase(config);
    assert.deepEqual(await database.asMaintenance(pendingMigrations), NAMES);
    assert.deepEqual(await migrate(config, database), NAMES);
    assert.deepEqual(await database.asMaintenance(pendingMigrations), []);
    assert.deepEqual(await migrate(config, database), []);
    await database.close();
  });

  it('makes functions again whose text has changed, but those of a newer release', async () => {
    const { config, database, close } = await openTestDatabase('embedded');
    await database.asOwner((client) =>
      client.query(`create or replace function back_off_model_rate(rate_limiter text, ms integer) returns void
        language sql as 'select'; update schema_functions set hash = 'another' where name = 'functions/model-rates.sql';
        update schema_functions set hash = 'another', release = '99.0.0' where name = 'functions/leases.sql'`),
    );
    assert.deepEqual(await database.asMaintenance(pendingMigrations), ['functions/model-rates.sql']);
    assert.deepEqual(await migrate(config, database), ['functions/model-rates.sql']);
    await backOffModelRate(database, 'a model', 60_000);
    assert.ok((await readModelBackOff(database, 'a model')) > 0, 'the old text is still there');
    assert.deepEqual(await migrate(config, database), []);
    await close();
  });

  it('leaves the functions alone where a build that knows more migrations has been, of whatever version', async () => {
    const { config, database, close } = await openTestDatabase('embedded');
    await database.asOwner((client) =>
      client.query(`insert into schema_migrations (name, batch, migration_time) values ('9999-future', 9, now());
        update schema_functions set hash = 'another'`),
    );
    assert.deepEqual(await database.asMaintenance(pendingMigrations), []);
    assert.deepEqual(await migrate(config, database), []);
    await close();
  });

  if (MODES.includes('postgres')) describe('on Postgres', onPostgres);
});

function onPostgres(): void {
  let testDatabase: Awaited<ReturnType<typeof createTestDatabase>>;
  let config: Config;

  beforeEach(async () => {
    testDatabase = await createTestDatabase();
    config = configFor(testDatabase.url);
  });

  afterEach(() => testDatabase.drop());

  it('lets two processes start at once: each migration is applied once', async () => {
    const applied = await Promise.all([migrate(config), migrate(config), migrate(config)]);
    assert.deepEqual(applied.flat(), NAMES);
    const database = await openDatabase(config);
    assert.deepEqual(await database.asMaintenance(pendingMigrations), []);
    await database.close();
  });

  it('is not stopped by the mark of a process that was killed in the middle', async () => {
    await withOwnerClient(testDatabase.url, (client) =>
      client.query(`create table schema_migrations_lock (index serial primary key, is_locked int);
        insert into schema_migrations_lock (is_locked) values (1)`),
    );
    assert.deepEqual(await migrate(config), NAMES);
  });

  it('does nothing on a database that a newer release has migrated', async () => {
    await migrate(config);
    await withOwnerClient(testDatabase.url, (client) =>
      client.query(`insert into schema_migrations (name, batch, migration_time) values ('9999-future', 9, now())`),
    );
    assert.deepEqual(await migrate(config), []);
  });

  it('says what an administrator can run where the user may not make roles or take them', async () => {
    const user = `limited_${randomUUID().slice(0, 8)}`;
    await withOwnerClient(testDatabase.url, (client) =>
      client.query(`create role ${user} login password '${PASSWORD}'; create extension vector`),
    );
    try {
      const limited = configFor(asUser(testDatabase.url, user));
      await migrate(config);
      const refusals = [
        [() => migrate(limited), new RegExp(`may not take the role drover_app.*GRANT drover_app TO ${user};`)],
        [() => openDatabase(limited), /may not take the role drover_app.*GRANT drover_app TO/],
      ] as const;
      for (const [attempt, message] of refusals) {
        await assert.rejects(attempt, (error) => {
          assert.ok(error instanceof DatabaseRoleError, String(error));
          assert.match(error.message, message);
          return true;
        });
      }
    } finally {
      await withOwnerClient(testDatabase.url, (client) => client.query(`drop role ${user}`));
    }
  });

  it('needs no superuser where the roles are granted and pgvector is there', async () => {
    const user = `modest_${randomUUID().slice(0, 8)}`;
    // The roles belong to the server; this makes sure that they are there.
    await migrate(config);
    const own = await createTestDatabase();
    const name = new URL(own.url).pathname.slice(1);
    await withOwnerClient(own.url, (client) =>
      client.query(`create role ${user} login password '${PASSWORD}'; grant drover_app, drover_maintenance to ${user};
        create extension vector; alter database ${name} owner to ${user}; alter schema public owner to ${user}`),
    );
    try {
      const modest = configFor(asUser(own.url, user));
      assert.deepEqual(await migrate(modest), NAMES);
      const database = await openDatabase(modest);
      assert.deepEqual(await database.asMaintenance(pendingMigrations), []);
      await database.close();
      // Without the rights of the roles what the functions erase would be hidden from them.
      await withOwnerClient(own.url, (client) =>
        client.query(`alter role ${user} noinherit; revoke drover_app, drover_maintenance from ${user};
          grant drover_app, drover_maintenance to ${user}`),
      );
      await assert.rejects(migrate(modest), /does not inherit its rights.* can run: .*INHERIT/);
    } finally {
      await own.drop();
      await withOwnerClient(testDatabase.url, (client) => client.query(`drop role ${user}`));
    }
  });

  it('is not what opening does, and a role that bypasses row level security is refused', async () => {
    await migrate(config);
    const test = await openTestDatabase('postgres');
    // In a transaction of their own that is undone: other tests share the server's roles.
    await test.database.asOwner(async (client) => {
      await client.query('begin; alter role drover_maintenance bypassrls');
      await assert.rejects(checkRoles(client), /drover_maintenance bypasses row level security/);
      await client.query('rollback');
    });
    await test.close();
  });
}

function configFor(url: string): Config {
  return loadConfig({ DATABASE_URL: url, DROVER_SECRET_KEY: 'the tests have no secrets' });
}

function asUser(url: string, user: string): string {
  const changed = new URL(url);
  changed.username = user;
  changed.password = PASSWORD;
  return changed.href;
}
