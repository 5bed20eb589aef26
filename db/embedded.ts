import { join } from 'node:path';
import { PGlite } from '@electric-sql/pglite';
import { createPgConfig } from '@electric-sql/pglite/node-postgres';
import { vector } from '@electric-sql/pglite-pgvector';
import pg from 'pg';
import type { ClientBase, ClientConfig, Pool, QueryResult } from 'pg';
import { withDeadline } from '../lib/deadline.ts';
import { withClient } from './checkout.ts';
import { type DataDirLock, lockDataDir } from './data-dir-lock.ts';
import type { Database, DatabaseOptions } from './database.ts';
import { ANNOUNCE_WORKER, createQueuePool, WITHDRAW_WORKER } from './queue-pool.ts';
import { ensureRoles } from './roles.ts';
import { checkRoles, type SessionOwner, TYPES } from './session.ts';
import { runTransaction } from './transaction.ts';

const IN_MEMORY = 'memory:';
const IN_MEMORY_URL = 'memory://';
const CHECKOUT_TIMEOUT_MS = 15_000;

/**
 * Opens PGlite in `<dataDir>/pgdata`, or in memory; see `openDatabase`. There is one session, and a pool of one
 * connection to it is the lock that everyone takes in turn: nothing slips between the BEGIN and COMMIT of another.
 */
export async function openEmbedded(dataDir: string, options: DatabaseOptions): Promise<Database> {
  const lock = dataDir === IN_MEMORY ? undefined : lockDataDir(dataDir);
  try {
    const pglite = await PGlite.create({
      dataDir: lock === undefined ? IN_MEMORY_URL : join(dataDir, 'pgdata'),
      extensions: { vector },
    });
    const database = createDatabase({ pglite, lock, options });
    await database.asOwner(async (client) => {
      await ensureRoles(client);
      await checkRoles(client);
    });
    return database;
  } catch (error) {
    lock?.release();
    throw error;
  }
}

function createDatabase(parts: { pglite: PGlite; lock: DataDirLock | undefined; options: DatabaseOptions }): Database {
  const { pglite, lock, options } = parts;
  const checkoutTimeoutMs = options.checkoutTimeoutMs ?? CHECKOUT_TIMEOUT_MS;
  const pool = openPool(pglite, checkoutTimeoutMs, options.onError ?? (() => undefined));
  const run = <T>(owner: SessionOwner, work: (client: ClientBase) => Promise<T>) =>
    withClient(pool, owner, work).catch((error: unknown) => {
      throw explainWait(error, checkoutTimeoutMs);
    });

  const database: Database = {
    kind: 'pglite',
    tookOverLock: lock?.tookOver ?? false,
    withTenant: (tenantId, work) => run('app', (client) => runTransaction(client, tenantId, work)),
    asMaintenance: (work) => run('maintenance', (client) => runTransaction(client, undefined, work)),
    call: (statement) =>
      run('app', async (client) => {
        const { rows } = await client.query({ ...statement, values: [...statement.values] });
        return rows;
      }),
    async ping(timeoutMs) {
      const answer = run('app', (client) => client.query('select 1'));
      await withDeadline(answer, timeoutMs, `No answer from the database within ${timeoutMs} ms`);
    },
    listen: createListen(pglite, (text) => run('app', (client) => client.query(text))),
    async announceWorker(queue) {
      await run('queue', (client) => client.query(ANNOUNCE_WORKER, [queue]));
      return async () => {
        if (!pglite.closed) await run('queue', (client) => client.query(WITHDRAW_WORKER, [queue]));
      };
    },
    async notify(channel, payload) {
      await run('app', (client) =>
        client.query({ name: 'notify', text: 'select pg_notify($1, $2)', values: [channel, payload] }),
      );
    },
    queueConnection: () =>
      createQueuePool(
        (text, values) => run('queue', (client) => client.query({ text, values: [...values] })),
        database,
      ),
    asOwner: (work) => run('owner', work),
    async close() {
      if (pglite.closed) return;
      await pool.end();
      await pglite.close();
      lock?.release();
    },
  };
  return database;
}

function openPool(pglite: PGlite, checkoutTimeoutMs: number, report: (error: Error) => void): Pool {
  // Each client needs a connection object of its own: with a shared one, the end of one client would end its successor.
  class EmbeddedClient extends pg.Client {
    constructor(config: ClientConfig = {}) {
      super(Object.assign({}, config, { host: 'localhost', connection: createPgConfig(pglite).connection }));
    }
  }
  const pool = new pg.Pool({
    Client: EmbeddedClient,
    max: 1,
    pipeline: true,
    types: TYPES,
    idleTimeoutMillis: 0,
    allowExitOnIdle: true,
    connectionTimeoutMillis: checkoutTimeoutMs,
    // The session outlives the clients: a new one must not meet what a dropped one has left.
    async onConnect(client) {
      await client.query("rollback; deallocate all; set timezone to 'UTC'");
    },
  });
  pool.on('error', report);
  pool.on('connect', (client) => client.on('error', report));
  return pool;
}

function createListen(pglite: PGlite, execute: (text: string) => Promise<QueryResult>): Database['listen'] {
  const listeners = new Map<string, number>();
  return async (channel, onPayload) => {
    const stopHearing = pglite.onNotification((from, payload) => {
      if (from === channel) onPayload(payload);
    });
    listeners.set(channel, (listeners.get(channel) ?? 0) + 1);
    // Executed as anyone's statement is, in turn: within another's transaction it would be undone with it.
    await execute(`listen ${pg.escapeIdentifier(channel)}`);
    return async () => {
      stopHearing();
      const left = (listeners.get(channel) ?? 1) - 1;
      listeners.set(channel, left);
      if (left === 0 && !pglite.closed) await execute(`unlisten ${pg.escapeIdentifier(channel)}`);
    };
  };
}

function explainWait(error: unknown, timeoutMs: number): unknown {
  if (!(error instanceof Error) || error.message !== 'timeout exceeded when trying to connect') return error;
  return new Error(
    `The database was busy for ${timeoutMs} ms. The embedded database has one session: ` +
      `a transaction that waits for another one never ends.`,
    { cause: error },
  );
}
