import pg from 'pg';
import type { ClientBase, ClientConfig } from 'pg';
import { withDeadline } from '../lib/deadline.ts';
import { STATEMENT_TIMEOUT_MS, type Database, type DatabaseOptions, type Tx } from './database.ts';
import { type KnexPool, openKnexPool, type PoolSettings, runStatement } from './knex-client.ts';
import { PostgresListener } from './postgres-listener.ts';
import { createQueuePool } from './queue-pool.ts';
import { checkPooledLogin, checkSameDatabase, explainRefusal } from './pooled-login.ts';
import { becomeOwner, checkRoles, isOwnerByLogin, type ConnectionOwner } from './connection-owner.ts';
import { notedAs } from './database-errors.ts';
import { TYPES } from './value-types.ts';
import { queriesOf } from './queries.ts';

/** A process frozen inside a transaction would otherwise hold its row locks for ever. */
const IDLE_IN_TRANSACTION_TIMEOUT_MS = 15_000;
/** Longer than the server's own limit: only ends calls on dead connections. */
const QUERY_TIMEOUT_MS = STATEMENT_TIMEOUT_MS + 5000;
/** JIT compilation takes a second if the planner overestimates a statement, and none here runs for long. */
const NO_JIT = 'set jit to off';
const CONNECT_TIMEOUT_MS = 5000;
/** Enough for hundreds of concurrent callers; less than clients and proxies wait for an answer, and than a lease. */
const CHECKOUT_TIMEOUT_MS = 10_000;
const IDLE_TIMEOUT_MS = 60_000;
const CLOSE_TIMEOUT_MS = 3000;
const MAINTENANCE_POOL_SIZE = 4;
const QUEUE_POOL_SIZE = 10;
const NO_TENANT = '00000000-0000-0000-0000-000000000000';

/** Opens pools to a Postgres server; see `openDatabase`. */
export async function openPostgres(
  server: { url: string; poolUrl: string | undefined; poolSize: number },
  options: DatabaseOptions,
): Promise<Database> {
  const report = options.onError ?? (() => undefined);
  // Roles have separate pools, so that each connection assumes its role once, when opened.
  const pool = <O extends ConnectionOwner>(owner: O, max: number, ...others: O[]) =>
    openPool({ connect: () => connectAs(owner, server.url, options) }, { owners: [owner, ...others], max, options });
  const { poolUrl, poolSize } = server;
  const pools = [
    poolUrl === undefined
      ? pool('app', poolSize)
      : openPool(
          { connect: () => connectPooled(poolUrl, options), isPooled: true },
          { owners: ['app'], max: poolSize, options },
        ),
    pool('maintenance', MAINTENANCE_POOL_SIZE),
    // What the queue asks waits for no lock of Drover's tables, so that these connections are the spare ones as well.
    pool<'queue' | 'maintenance'>('queue', QUEUE_POOL_SIZE, 'maintenance'),
  ] as const;
  const [{ app }, { maintenance }, { queue, maintenance: spare }] = [pools[0].as, pools[1].as, pools[2].as];
  const listener = new PostgresListener(() => new pg.Client(clientConfig(server.url, options)), report);

  const database: Database = {
    kind: 'postgres',
    tookOverLock: false,
    ...queriesOf({ app, maintenance, spare }),
    listen: (channel, onPayload, onReconnect) => listener.listen(channel, onPayload, onReconnect),
    announceWorker: (name) => listener.announceWorker(name),
    queueConnection: () => createQueuePool((text, values) => runStatement(queue, { text, values }), database),
    asOwner: (work) => withOwnerClient(server.url, work),
    async close() {
      const ended = Promise.all([listener, ...pools].map((each) => each.close()));
      await withDeadline(ended, CLOSE_TIMEOUT_MS, 'Connections were still in use');
    },
  };
  try {
    await withOwnerClient(server.url, async (client) => {
      await checkRoles(client);
      if (poolUrl !== undefined) await checkPool(client, database);
    });
  } catch (error) {
    // The original error matters more.
    await database.close().catch(() => undefined);
    throw error;
  }
  return database;
}

/** First checks that it is the same database, since a login's rights in another one say nothing. */
async function checkPool(client: ClientBase, database: Database): Promise<void> {
  const pooled = <T>(work: (tx: Tx) => Promise<T>) => database.withTenant(NO_TENANT, work).catch(explainRefusal);
  await checkSameDatabase(client, pooled);
  await pooled(checkPooledLogin);
}

/** Runs `work` on a separate connection as the URL's user, without timeouts: for migrations, and other work beyond the service's roles. */
export async function withOwnerClient<T>(url: string, work: (client: ClientBase) => Promise<T>): Promise<T> {
  const client = new pg.Client({ ...clientConfig(url, {}), query_timeout: 0 });
  // A broken connection also fails the running query; the event alone must not end the process.
  client.on('error', () => undefined);
  await connected(client);
  try {
    await client.query(`set timezone to 'UTC'; ${NO_JIT}`);
    return await work(client);
  } finally {
    await client.end();
  }
}

function openPool<O extends ConnectionOwner>(
  connections: Pick<PoolSettings, 'connect' | 'isPooled'>,
  { owners, max, options }: { owners: O[]; max: number; options: DatabaseOptions },
): KnexPool<O> {
  const checkoutTimeoutMs = options.checkoutTimeoutMs ?? CHECKOUT_TIMEOUT_MS;
  const busy = `The database was busy: all ${max} connections were in use for ${checkoutTimeoutMs} ms.`;
  const away = `No answer from the database within ${checkoutTimeoutMs} ms, and none of ${max} connections is free.`;
  const times = { checkoutTimeoutMs, idleTimeoutMs: IDLE_TIMEOUT_MS };
  return openKnexPool({ ...connections, ...times, max, busy, away }, owners);
}

async function connectAs(owner: ConnectionOwner, url: string, options: DatabaseOptions): Promise<pg.Client> {
  const client = await connect('DATABASE_URL', url, options);
  try {
    await client.query(
      `set timezone to 'UTC'; set statement_timeout to ${STATEMENT_TIMEOUT_MS};
         set idle_in_transaction_session_timeout to ${IDLE_IN_TRANSACTION_TIMEOUT_MS}; ${NO_JIT}`,
    );
    await becomeOwner(client, owner);
  } catch (error) {
    client.end().catch(() => undefined);
    throw error;
  }
  return client;
}

/** Role, time zone and limits are set on the login (`checkPooledLogin`). */
async function connectPooled(url: string, options: DatabaseOptions): Promise<pg.Client> {
  const client = await connect('DATABASE_POOL_URL', url, options);
  isOwnerByLogin(client, 'app');
  return client;
}

async function connect(
  variable: 'DATABASE_URL' | 'DATABASE_POOL_URL',
  url: string,
  options: DatabaseOptions,
): Promise<pg.Client> {
  const client = new pg.Client({ ...clientConfig(url, options), pipeline: true, types: TYPES });
  // In use or idle: without a listener, losing it would end the process.
  client.on('error', options.onError ?? (() => undefined));
  return connected(client).catch((error: unknown) => {
    throw notedAs(error, variable);
  });
}

/** Ends the connection if the client cannot use it: its server would keep it, and this process with it, for a minute. */
async function connected(client: pg.Client): Promise<pg.Client> {
  try {
    await client.connect();
    return client;
  } catch (error) {
    client.end().catch(() => undefined);
    throw error;
  }
}

function clientConfig(url: string, options: DatabaseOptions): ClientConfig {
  return {
    connectionString: url,
    connectionTimeoutMillis: options.checkoutTimeoutMs ?? CONNECT_TIMEOUT_MS,
    query_timeout: QUERY_TIMEOUT_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    application_name: 'drover',
  };
}
