import pg from 'pg';
import type { ClientBase, ClientConfig } from 'pg';
import { withDeadline } from '../lib/deadline.ts';
import type { Database, DatabaseOptions } from './database.ts';
import { type KnexPool, openKnexPool, runStatement } from './knex-client.ts';
import { PostgresListener } from './postgres-listener.ts';
import { createQueuePool } from './queue-pool.ts';
import { becomeOwner, checkRoles, type SessionOwner, TYPES } from './session.ts';
import { queriesOf } from './queries.ts';

const STATEMENT_TIMEOUT_MS = 30_000;
/** A process that is frozen inside a transaction would hold its row locks for ever. */
const IDLE_IN_TRANSACTION_TIMEOUT_MS = 15_000;
/** Longer than the server's own limit: it only ends calls whose connection has gone silent. */
const QUERY_TIMEOUT_MS = STATEMENT_TIMEOUT_MS + 5000;
const CHECKOUT_TIMEOUT_MS = 5000;
const IDLE_TIMEOUT_MS = 60_000;
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
  const pool = <O extends SessionOwner>(owner: O, max: number) => openPool(server.url, { owner, max, options });
  const pools = [
    pool('app', server.poolSize),
    pool('maintenance', MAINTENANCE_POOL_SIZE),
    pool('queue', QUEUE_POOL_SIZE),
  ] as const;
  const [{ app }, { maintenance }, { queue }] = [pools[0].as, pools[1].as, pools[2].as];
  const listener = new PostgresListener(() => new pg.Client(clientConfig(server.url, options)), report);

  const database: Database = {
    kind: 'postgres',
    tookOverLock: false,
    ...queriesOf({ app, maintenance }),
    listen: (channel, onPayload, onReconnect) => listener.listen(channel, onPayload, onReconnect),
    announceWorker: (name) => listener.announceWorker(name),
    queueConnection: () => createQueuePool((text, values) => runStatement(queue, { text, values }), database),
    asOwner: (work) => withOwnerClient(server.url, work),
    async close() {
      await listener.close();
      const ended = Promise.all(pools.map((each) => each.close()));
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

function openPool<O extends SessionOwner>(
  url: string,
  { owner, max, options }: { owner: O; max: number; options: DatabaseOptions },
): KnexPool<O> {
  const report = options.onError ?? (() => undefined);
  const checkoutTimeoutMs = options.checkoutTimeoutMs ?? CHECKOUT_TIMEOUT_MS;
  const connect = async () => {
    const client = new pg.Client({ ...clientConfig(url, options), pipeline: true, types: TYPES });
    // Whether it is in use or not: without a listener its loss would end the process.
    client.on('error', report);
    await client.connect();
    try {
      await client.query(
        `set timezone to 'UTC'; set statement_timeout to ${STATEMENT_TIMEOUT_MS};
         set idle_in_transaction_session_timeout to ${IDLE_IN_TRANSACTION_TIMEOUT_MS}`,
      );
      await becomeOwner(client, owner);
    } catch (error) {
      client.end().catch(() => undefined);
      throw error;
    }
    return client;
  };
  const busy = `The database was busy: timeout exceeded, all ${max} connections were in use for ${checkoutTimeoutMs} ms.`;
  return openKnexPool({ connect, max, checkoutTimeoutMs, idleTimeoutMs: IDLE_TIMEOUT_MS, busy }, [owner]);
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
