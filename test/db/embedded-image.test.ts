import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadConfig } from '../../config.ts';
import { DataDirLockedError, lockDataDir } from '../../db/data-dir-lock.ts';
import type { Database } from '../../db/database.ts';
import { describeSchema } from '../../db/describe-schema.ts';
import { beginDataDir } from '../../db/embedded-image.ts';
import { pendingMigrations } from '../../db/migrate.ts';
import { openDatabase } from '../../db/open-database.ts';

/** What the migrations themselves write. */
const WRITTEN = ['schema_functions', 'schema_migrations', 'schema_migrations_lock'];

describe('A new data directory', () => {
  let parent: string;
  beforeEach(() => {
    parent = mkdtempSync(join(tmpdir(), 'drover-image-'));
  });
  afterEach(() => rmSync(parent, { recursive: true, force: true }));

  const open = (dataDir: string) => openDatabase(loadConfig({ DROVER_DATA_DIR: dataDir }));
  const rows = <R extends object>(database: Database, sql: string) =>
    database.asOwner(async (client) => (await client.query<R>(sql)).rows);
  const count = async (database: Database, table: string) =>
    (await rows<{ n: number }>(database, `select count(*)::int as n from ${table}`))[0]?.n;

  it('begins migrated, with no row of anybody, and with nothing beside the database', async () => {
    const dataDir = join(parent, 'data');
    await beginDataDir(dataDir);
    assert.deepEqual(readdirSync(dataDir), ['pgdata']);
    const database = await open(dataDir);
    try {
      assert.deepEqual(await database.asMaintenance(pendingMigrations), []);
      const [, ...listing] = readFileSync('db/schema.sql', 'utf8').split('\n\n');
      assert.equal(await database.asOwner(describeSchema), listing.join('\n\n'));
      const tables = await rows<{ name: string }>(
        database,
        `select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'`,
      );
      const filled: string[] = [];
      for (const { name } of tables) if ((await count(database, name)) !== 0) filled.push(name);
      assert.deepEqual(filled.toSorted(), WRITTEN);
      // All of them are memory of the process in the end: PGlite would have 160 MB.
      assert.deepEqual(await rows(database, 'show shared_buffers'), [{ shared_buffers: '32MB' }]);
    } finally {
      await database.close();
    }
  });

  it('begins anew where a process died while it copied, and stays as it is once it has begun', async () => {
    const dataDir = join(parent, 'data');
    mkdirSync(join(dataDir, 'pgdata.new', 'base'), { recursive: true });
    writeFileSync(join(dataDir, 'pgdata.new', 'PG_VERSION'), 'half a file');
    await beginDataDir(dataDir);
    const first = await open(dataDir);
    await rows(first, 'create table kept as select 42 as answer');
    await first.close();
    await beginDataDir(dataDir);
    assert.deepEqual(readdirSync(dataDir), ['pgdata']);
    const second = await open(dataDir);
    assert.deepEqual(await rows(second, 'select answer from kept'), [{ answer: 42 }]);
    await second.close();
  });

  it('is refused to a second process while the first one holds it', async () => {
    const dataDir = join(parent, 'data');
    const lock = await lockDataDir(dataDir);
    await assert.rejects(beginDataDir(dataDir), DataDirLockedError);
    lock.release();
    assert.deepEqual(readdirSync(dataDir), []);
  });

  it('is left for the database to make where no image can be kept', async () => {
    const dataDir = join(parent, 'data');
    writeFileSync(join(parent, 'a file'), '');
    await assert.rejects(beginDataDir(dataDir, join(parent, 'a file')), /ENOTDIR|EEXIST/);
    assert.equal(existsSync(dataDir), false);
  });
});
