import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import type pg from 'pg';
import { loadConfig, type Config } from '../../config.ts';
import type { Database, DatabaseOptions } from '../../db/database.ts';
import { openDatabase } from '../../db/open-database.ts';
import { TEST_DATABASE_URL, TEST_REDIS_URL, type Mode } from './modes.ts';
import { copyEmbeddedTemplate, copyPostgresTemplate, query, type CopyOptions } from './template.ts';

export interface TestDatabase {
  config: Config;
  database: Database;
  /** Runs one statement as the superuser of the tests, outside the database under test. Postgres only. */
  admin: (text: string) => Promise<pg.QueryResult>;
  /** Closes the database and removes it. */
  close: () => Promise<void>;
}

/** Where a test's Drover keeps its data: a migrated database, and in full mode a prefix on Redis. */
export interface TestServices {
  /** The configuration that leads there. */
  env: Record<string, string>;
  /** Of the database, except in embedded mode. */
  url: string | undefined;
  drop: () => Promise<unknown>;
}

/** A migrated database of the test file's own, in the given mode. `env` adds to the configuration. */
export async function openTestDatabase(
  mode: Mode,
  env: Record<string, string> = {},
  options: DatabaseOptions = {},
): Promise<TestDatabase> {
  const services = await createTestServices(mode);
  const config = loadConfig({ ...services.env, ...env });
  const database = await openDatabase(config, options);
  return {
    config,
    database,
    admin,
    async close() {
      await database.close();
      await services.drop();
    },
  };
}

/** Loading the embedding model takes a second of a core: suites that want it say so. */
const NO_MODEL = { DROVER_EMBEDDING_MODEL: 'off' };

/** A migrated database and a queue prefix that nobody else uses. */
export async function createTestServices(mode: Mode, options: CopyOptions = {}): Promise<TestServices> {
  if (mode === 'embedded') {
    const dataDir = await copyEmbeddedTemplate();
    const drop = () => rm(dataDir, { recursive: true, force: true });
    return { env: { DROVER_DATA_DIR: dataDir, ...NO_MODEL }, url: undefined, drop };
  }
  const { url, drop } = await createMigratedDatabase(options);
  return {
    env: {
      ...NO_MODEL,
      DATABASE_URL: url,
      DROVER_SECRET_KEY: 'the tests have no secrets',
      DROVER_QUEUE_PREFIX: `test-${randomUUID()}`,
      // What embedded mode allows by itself.
      DROVER_EGRESS_ALLOW: '127.0.0.1',
      DROVER_STDIO_COMMANDS: process.execPath,
      ...(mode === 'full' ? { REDIS_URL: TEST_REDIS_URL ?? '' } : {}),
    },
    url,
    drop,
  };
}

/** A migrated database on the Postgres of the tests. */
export async function createMigratedDatabase(
  options: CopyOptions = {},
): Promise<{ url: string; drop: () => Promise<undefined> }> {
  const { name, ...database } = nameDatabase(TEST_DATABASE_URL ?? '');
  await copyPostgresTemplate(TEST_DATABASE_URL ?? '', { name, ...options });
  return database;
}

/** An empty database on the Postgres of the tests. */
export const createTestDatabase = () => createTestDatabaseAt(TEST_DATABASE_URL ?? '');

/** An empty database on another server; `serverUrl` has the right to create it. */
export async function createTestDatabaseAt(
  serverUrl: string,
): Promise<{ url: string; drop: () => Promise<undefined> }> {
  const { name, ...database } = nameDatabase(serverUrl);
  await query(serverUrl, `create database ${name}`);
  return database;
}

function nameDatabase(serverUrl: string) {
  const name = `drover_test_${randomUUID().replaceAll('-', '')}`;
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  return {
    name,
    url: url.href,
    async drop() {
      await query(serverUrl, `drop database if exists ${name} with (force)`);
      return undefined;
    },
  };
}

const admin = (text: string) => query(TEST_DATABASE_URL ?? '', text);
