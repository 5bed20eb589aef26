/** What every test database is copied from: a migrated one, made once for each state of `db/` and of the packages. */
import { cpSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { loadConfig } from '../../config.ts';
import { clusterIn } from '../../db/embedded.ts';
import { makeImage } from '../../db/embedded-image.ts';
import { migrate } from '../../db/migrate.ts';
import { hashOf } from './made-once.ts';

/** Any number of its own: test processes that lack the template wait for the first one to make it. */
const TEMPLATE_LOCK = 7_236_419_002;
/** More than the migrations need, which costs seconds after a change; what is missing would cost hours. */
const SOURCES = ['db'];

/**
 * What a database is for. Workers make partitions for a year as soon as they start, which takes ten times as long as
 * copying them; others do with a month or two: each partition is four files to copy, and a table to plan with.
 */
export interface CopyOptions {
  forWorkers?: boolean;
}

const DROP_FAR_PARTITIONS = `do $$ declare far regclass; begin
  for far in select c.oid from pg_class c join pg_inherits i on i.inhrelid = c.oid
    where c.relkind = 'r' and substring(c.relname from '_from_(\\d{8})$')::date > current_date + 32
  loop execute format('drop table %s', far); end loop;
end $$`;

const templates = new Map<string, Promise<string>>();

/** A migrated database of this name on the server, whose URL has the right to create it. */
export async function copyPostgresTemplate(
  serverUrl: string,
  { name, forWorkers = false }: CopyOptions & { name: string },
): Promise<void> {
  const template = templates.get(serverUrl) ?? makePostgresTemplates(serverUrl);
  templates.set(serverUrl, template);
  const copied = forWorkers ? yearOf(await template) : monthOf(await template);
  await query(serverUrl, `create database ${name} template ${copied} strategy file_copy`);
}

/** Named after how far ahead its partitions reach. */
const yearOf = (template: string): string => `${template}_year`;
const monthOf = (template: string): string => `${template}_month`;

/**
 * A data directory of embedded mode, migrated and in nobody's use: what a first start begins with. It is not synced, which
 * takes more CPU than to copy and open it.
 */
export async function copyEmbeddedTemplate(): Promise<string> {
  const dataDir = await mkdtemp(join(tmpdir(), 'drover-test-'));
  cpSync(await makeImage(), clusterIn(dataDir) ?? dataDir, { recursive: true });
  return dataDir;
}

/** Runs one statement on a connection of its own. */
export async function query(connectionString: string, text: string): Promise<pg.QueryResult> {
  return withClient(connectionString, (client) => client.query(text));
}

/** Makes both; answers what their names have in common. */
async function makePostgresTemplates(serverUrl: string): Promise<string> {
  const name = `drover_template_${hashOf(SOURCES)}`;
  await withClient(serverUrl, async (client) => {
    await client.query('select pg_advisory_lock($1)', [TEMPLATE_LOCK]);
    await makeClosed(client, yearOf(name), async () => {
      await client.query(`create database ${yearOf(name)}`);
      const url = urlOf(serverUrl, yearOf(name));
      await migrate(loadConfig({ DATABASE_URL: url, DROVER_SECRET_KEY: 'the tests have no secrets' }));
    });
    await makeClosed(client, monthOf(name), async () => {
      await client.query(`create database ${monthOf(name)} template ${yearOf(name)}`);
      await query(urlOf(serverUrl, monthOf(name)), DROP_FAR_PARTITIONS);
    });
  });
  return name;
}

/** Has `make` create a database, unless it is there and closed. It is closed last, so that an open one was left by a process that was killed while it made it. */
async function makeClosed(client: pg.Client, name: string, make: () => Promise<void>): Promise<void> {
  const { rows } = await client.query('select datallowconn as open from pg_database where datname = $1', [name]);
  if (rows[0]?.open === false) return;
  await client.query(`drop database if exists ${name} with (force)`);
  await make();
  await client.query(`alter database ${name} allow_connections false`);
}

function urlOf(serverUrl: string, database: string): string {
  const url = new URL(serverUrl);
  url.pathname = `/${database}`;
  return url.href;
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
