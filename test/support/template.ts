/** What every test database is copied from: a migrated one, made once for each state of `db/` and of the packages. */
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { loadConfig } from '../../config.ts';
import { beginDataDir } from '../../db/embedded-image.ts';
import { migrate } from '../../db/migrate.ts';
import { hashOf } from './made-once.ts';

/** Any number of its own: test processes that lack the template wait for the first one to make it. */
const TEMPLATE_LOCK = 7_236_419_002;
/** More than the migrations need, which costs seconds after a change; what is missing would cost hours. */
const SOURCES = ['db'];

/**
 * A database of a test has partitions for a month or two, where an installation has them for a year: each of them is four
 * files to copy, and a table to plan with.
 */
const DROP_FAR_PARTITIONS = `do $$ declare far regclass; begin
  for far in select c.oid from pg_class c join pg_inherits i on i.inhrelid = c.oid
    where c.relkind = 'r' and substring(c.relname from '_from_(\\d{8})$')::date > current_date + 32
  loop execute format('drop table %s', far); end loop;
end $$`;

const templates = new Map<string, Promise<string>>();

/** A migrated database of this name on the server, whose URL has the right to create it. */
export async function copyPostgresTemplate(serverUrl: string, name: string): Promise<void> {
  const template = templates.get(serverUrl) ?? makePostgresTemplate(serverUrl);
  templates.set(serverUrl, template);
  await query(serverUrl, `create database ${name} template ${await template} strategy file_copy`);
}

/** A data directory of embedded mode, migrated and in nobody's use: what a first start begins with. */
export async function copyEmbeddedTemplate(): Promise<string> {
  const dataDir = await mkdtemp(join(tmpdir(), 'drover-test-'));
  await beginDataDir(dataDir);
  return dataDir;
}

/** Runs one statement on a connection of its own. */
export async function query(connectionString: string, text: string): Promise<pg.QueryResult> {
  return withClient(connectionString, (client) => client.query(text));
}

async function makePostgresTemplate(serverUrl: string): Promise<string> {
  const name = `drover_template_${hashOf(SOURCES)}`;
  await withClient(serverUrl, async (client) => {
    await client.query('select pg_advisory_lock($1)', [TEMPLATE_LOCK]);
    const { rows } = await client.query('select datallowconn as open from pg_database where datname = $1', [name]);
    // It is closed last, so that an open one was left by a process that was killed while it made it.
    if (rows[0]?.open === false) return;
    await client.query(`drop database if exists ${name} with (force)`);
    await client.query(`create database ${name}`);
    const url = new URL(serverUrl);
    url.pathname = `/${name}`;
    await migrate(loadConfig({ DATABASE_URL: url.href, DROVER_SECRET_KEY: 'the tests have no secrets' }));
    await query(url.href, DROP_FAR_PARTITIONS);
    await client.query(`alter database ${name} allow_connections false`);
  });
  return name;
}

async function withClient<T>(connectionString: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString, connectionTimeoutMillis: 5000 });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}
