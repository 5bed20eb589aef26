import pg from 'pg';
import type { ClientBase, ClientConfig, Pool, PoolConfig } from 'pg';
import { withDeadline } from '../lib/deadline.ts';
import { withClient } from './checkout.ts';
import type { Database, DatabaseOptions } from './database.ts';
import { PostgresListener } from './postgres-listener.ts';
import { createQueuePool } from './queue-pool.ts';
import { becomeOwner, checkRoles, type SessionOwner, TYPES } from './session.ts';
import { runTransaction } from './transaction.ts';

const STATEMENT_TIMEOUT_MS = 30_000;
/** A process that is frozen inside a transaction would hold its row locks for ever. */
const IDLE_IN_TRANSACTION_TIMEOUT_MS = 15_000;
/** Longer than the server's own limit: it only ends calls whose connection has gone silent. */
const QUERY_TIMEOUT_MS = STATEMENT_TIMEOUT_MS + 5000;
const CHECKOUT_TIMEOUT_MS = 5000;
const CLOSE_TIMEOUT_MS = 5000;
const MAINTENANCE_POOL_SIZE = 4;
const QUEUE_POOL_SIZE = 10;

/** Opens pools to a Postgres server; see `openDatabase`. */
export async function openPostgres(
  server: { url: string; poolSize: number },
  options: DatabaseOptions,
): Promise<Database> {
  const report = options.onError ?? (() => undefined);
  // The roles have pools of their own, so that a connection takes its role once, when it is made.
  const pool = (owner: SessionOwner, max: number) => openPool(server.url, { owner, max, options });
  const app = pool('app', server.poolSize);
  const maintenance = pool('maintenance', MAINTENANCE_POOL_SIZE);
  const queue = pool('queue', QUEUE_POOL_SIZE);
  const listener = new PostgresListener(() => new pg.Client(clientConfig(server.url, options)), report);
  const pools = [app, maintenance, queue];

  const database: Database = {
    kind: 'postgres',
    tookOverLock: false,
    withTenant: (tenantId, work) => withClient(app, 'app', (client) => runTransaction(client, tenantId, work)),
    asMaintenance: (work) =>
      withClient(maintenance, 'maintenance', (client) => runTransaction(client, undefined, work)),
    call: (statement) =>
      withClient(app, 'app', async (client) => {
        const { rows } = await client.query({ ...statement, values: [...statement.values] });
        return rows;
      }),
    async ping(timeoutMs) {
      const answer = withClient(app, 'app', (client) => client.query('select 1'));
      await withDeadline(answer, timeoutMs, `No answer from the database within ${timeoutMs} ms`);
    },
    listen: (channel, onPayload, onReconnect) => listener.listen(channel, onPayload, onReconnect),
    announceWorker: (name) => listener.announceWorker(name),
    async notify(channel, payload) {
      await withClient(app, 'app', (client) =>
        client.query({ name: 'notify', text: 'select pg_notify($1, $2)', values: [channel, payload] }),
      );
    },
    queueConnection: () =>
      createQueuePool(
        (text, values) => withClient(queue, 'queue', (client) => client.query({ text, values: [...values] })),
        database,
      ),
    asOwner: (work) => withOwnerClient(server.url, work),
    async close() {
      await listener.close();
      const ended = Promise.all(pools.filter((each) => !each.ending).map((each) => each.end()));
      await withDeadline(ended, CLOSE_TIMEOUT_MS, 'Connections were still in use').catch(report);
    },
  };
  try {
    await withOwnerClient(server.url, checkRoles);
  } catch (error) {
    await database.close();
    throw error;
  }
  return database;
}

/** Runs `work` on a connection of its own as the user of the URL, without time limits: for migrations. */
export async function withOwnerClient<T>(url: string, work: (client: ClientBase) => Promise<T>): Promise<T> {
  const client = new pg.Client({ ...clientConfig(url, {}), query_timeout: 0 });
  // A connection that breaks fails the query under way too; the event alone must not end the process.
  client.on('error', () => undefined);
  await client.connect();
  try {
    await client.query("set timezone to 'UTC'");
    return await work(client);
  } finally {
    await client.end();
  }
}

function openPool(url: string, wanted: { owner: SessionOwner; max: number; options: DatabaseOptions }): Pool {
  const { owner, max, options } = wanted;
  const config: PoolConfig = {
    ...clientConfig(url, options),
    max,
    pipeline: true,
    types: TYPES,
    idleTimeoutMillis: 60_000,
    // oxlint-disable-next-line typescript/no-misused-promises -- pg-pool awaits it; its types do not say so.
    async onConnect(client) {
      await client.query(
        `set timezone to 'UTC'; set statement_timeout to ${STATEMENT_TIMEOUT_MS};
         set idle_in_transaction_session_timeout to ${IDLE_IN_TRANSACTION_TIMEOUT_MS}`,
      );
      await becomeOwner(client, owner);
    },
  };
  const pool = new pg.Pool(config);
  const report = withoutClient(options.onError ?? (() => undefined));
  pool.on('error', report);
  // While a connection is checked out, the pool does not listen: its loss would end the process.
  pool.on('connect', (client) => client.on('error', report));
  return pool;
}

/** The pool hangs the whole client onto its errors, which is long and holds the key that cancels its queries. */
function withoutClient(report: (error: Error) => void): (error: Error & { client?: unknown }) => void {
  return (error) => {
    delete error.client;
    report(error);
  };
}

function clientConfig(url: string, options: DatabaseOptions): ClientConfig {
  return {
    connectionString: url,
    connectionTimeoutMillis: options.checkoutTimeoutMs ?? CHECKOUT_TIMEOUT_MS,
    query_timeout: QUERY_TIMEOUT_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    application_name: 'drover',
  };
}
