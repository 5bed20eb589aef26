import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { loadConfig, type Config } from '../../config.ts';
import { migrate, openDatabase, type Database, type DatabaseOptions } from '../../db/database.ts';
import { TEST_DATABASE_URL, TEST_REDIS_URL, type Mode } from './modes.ts';

export interface TestDatabase {
  config: Config;
  database: Database;
  /** Runs one statement as the superuser of the tests, outside the database under test. Postgres only. */
  admin: (text: string) => Promise<pg.QueryResult>;
  /** Closes the database and removes it. */
  close: () => Promise<void>;
}

/** A migrated database of the test file's own, in the given mode. `env` adds to the configuration. */
export async function openTestDatabase(
  mode: Mode,
  env: Record<string, string> = {},
  options: DatabaseOptions = {},
): Promise<TestDatabase> {
  const place = mode === 'embedded' ? { url: undefined, drop: async () => undefined } : await createTestDatabase();
  const config = loadConfig({
    ...(place.url === undefined
      ? { DROVER_DATA_DIR: 'memory:' }
      : { DATABASE_URL: place.url, DROVER_SECRET_KEY: 'the tests have no secrets' }),
    ...(mode === 'full' ? { REDIS_URL: TEST_REDIS_URL, DROVER_QUEUE_PREFIX: `test-${randomUUID()}` } : {}),
    ...env,
  });
  if (mode !== 'embedded') await migrate(config);
  const database = await openDatabase(config, options);
  if (mode === 'embedded') await migrate(config, database);
  return {
    config,
    database,
    admin,
    async close() {
      await database.close();
      await place.drop();
    },
  };
}

/** An empty database on the Postgres of the tests. */
export const createTestDatabase = () => createTestDatabaseAt(TEST_DATABASE_URL ?? '');

/** An empty database on another server; `serverUrl` has the right to create it. */
export async function createTestDatabaseAt(
  serverUrl: string,
): Promise<{ url: string; drop: () => Promise<undefined> }> {
  const name = `drover_test_${randomUUID().replaceAll('-', '')}`;
  await query(serverUrl, `create database ${name}`);
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  return {
    url: url.href,
    async drop() {
      await query(serverUrl, `drop database if exists ${name} with (force)`);
      return undefined;
    },
  };
}

const admin = (text: string) => query(TEST_DATABASE_URL ?? '', text);

/** Runs one statement on a connection of its own. */
export async function query(connectionString: string, text: string): Promise<pg.QueryResult> {
  const client = new pg.Client({ connectionString, connectionTimeoutMillis: 5000 });
  await client.connect();
  try {
    return await client.query(text);
  } finally {
    await client.end();
  }
}
