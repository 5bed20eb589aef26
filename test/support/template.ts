/**
 * What every test database is copied from: a migrated one, made once for each state of `db/` and of the packages, and
 * kept for later runs. A copy takes a fraction of a second, migrations take one, and a new PGlite cluster takes five.
 */
import { execFile } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rename, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import { loadConfig } from '../../config.ts';
import { migrate } from '../../db/database.ts';

/** Any number of its own: test processes that lack the template wait for the first one to make it. */
const TEMPLATE_LOCK = 7_236_419_002;
const FOLDER = join('.drover', 'test-templates');
const KEPT_MS = 24 * 3_600_000;

const made = new Map<string, Promise<string>>();

/** A migrated database of this name on the server, whose URL has the right to create it. */
export async function copyPostgresTemplate(serverUrl: string, name: string): Promise<void> {
  const template = await once(serverUrl, () => makePostgresTemplate(serverUrl));
  await query(serverUrl, `create database ${name} template ${template}`);
}

/** A data directory of embedded mode, migrated and in nobody's use. */
export async function copyEmbeddedTemplate(): Promise<string> {
  const template = await once('embedded', makeEmbeddedTemplate);
  const dataDir = await mkdtemp(join(tmpdir(), 'drover-test-'));
  // Ten times as fast as `cp` of node:fs, which copies its thousand files one by one.
  await promisify(execFile)('cp', ['-R', join(template, 'pgdata'), dataDir]);
  return dataDir;
}

/** Runs one statement on a connection of its own. */
export async function query(connectionString: string, text: string): Promise<pg.QueryResult> {
  return withClient(connectionString, (client) => client.query(text));
}

async function makePostgresTemplate(serverUrl: string): Promise<string> {
  const name = `drover_template_${hashOfSources()}`;
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
    await client.query(`alter database ${name} allow_connections false`);
  });
  return name;
}

async function makeEmbeddedTemplate(): Promise<string> {
  const template = join(FOLDER, hashOfSources());
  if (existsSync(template)) return template;
  await mkdir(FOLDER, { recursive: true });
  const dataDir = join(FOLDER, `making-${randomUUID()}`);
  await migrate(loadConfig({ DROVER_DATA_DIR: dataDir }));
  await rename(dataDir, template).catch(async (error: unknown) => {
    await rm(dataDir, { recursive: true, force: true });
    // Another process was first.
    if (!existsSync(template)) throw error;
  });
  await removeOldTemplates(template);
  return template;
}

async function removeOldTemplates(template: string): Promise<void> {
  for (const name of await readdir(FOLDER)) {
    const other = join(FOLDER, name);
    const { mtimeMs } = await stat(other).catch(() => ({ mtimeMs: Infinity }));
    if (other !== template && mtimeMs < Date.now() - KEPT_MS) await rm(other, { recursive: true, force: true });
  }
}

/** More than the migrations need, which costs a few seconds after a change of `db/`; what is missing would cost hours. */
function hashOfSources(): string {
  const sources = readdirSync('db', { recursive: true, encoding: 'utf8' })
    .filter((file) => /\.(ts|sql)$/.test(file))
    .map((file) => join('db', file));
  const hash = createHash('sha256');
  for (const file of ['package-lock.json', ...sources.toSorted()]) hash.update(file).update(readFileSync(file));
  return hash.digest('hex').slice(0, 16);
}

function once(key: string, make: () => Promise<string>): Promise<string> {
  const template = made.get(key) ?? make();
  made.set(key, template);
  return template;
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
