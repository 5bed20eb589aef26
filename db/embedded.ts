import type { EventEmitter } from 'node:events';
import { join } from 'node:path';
import type { PGlite } from '@electric-sql/pglite';
import pg from 'pg';
import { type DataDirLock, lockDataDir } from './data-dir-lock.ts';
import type { Database, DatabaseOptions } from './database.ts';
import { openKnexPool, runStatement, withConnection } from './knex-client.ts';
import { queriesOf } from './queries.ts';
import { ANNOUNCE_WORKER, createQueuePool, WITHDRAW_WORKER } from './queue-pool.ts';
import { ensureRoles } from './roles.ts';
import { checkRoles, TYPES } from './session.ts';

const IN_MEMORY = 'memory:';
const IN_MEMORY_URL = 'memory://';
const CHECKOUT_TIMEOUT_MS = 15_000;

/** Where a data directory has its database; undefined where nothing is kept. */
export const clusterIn = (dataDir: string): string | undefined =>
  dataDir === IN_MEMORY ? undefined : join(dataDir, 'pgdata');

/**
 * Opens PGlite in `<dataDir>/pgdata`, or in memory; see `openDatabase`. There is one session, and a pool of one
 * connection to it is the lock that everyone takes in turn: nothing slips between the BEGIN and COMMIT of another.
 */
export async function openEmbedded(dataDir: string, options: DatabaseOptions): Promise<Database> {
  const lock = dataDir === IN_MEMORY ? undefined : lockDataDir(dataDir);
  try {
    const pglite = await openPglite(clusterIn(dataDir) ?? IN_MEMORY_URL);
    const database = createDatabase({ pglite, lock, dataDir, options });
    await prepare(database);
    return database;
  } catch (error) {
    lock?.release();
    throw error;
  }
}

/** It is loaded here: the modes that have a server do without. */
async function openPglite(dataDir: string): Promise<PGlite> {
  const { PGlite: Pglite } = await import('@electric-sql/pglite');
  const { vector } = await import('@electric-sql/pglite-pgvector');
  return Pglite.create({ dataDir, extensions: { vector } });
}

/** A database that cannot be used is closed: its pool would keep the process from ending. */
async function prepare(database: Database): Promise<void> {
  try {
    await database.asOwner(async (client) => {
      await ensureRoles(client);
      await checkRoles(client);
    });
  } catch (error) {
    await database.close();
    throw error;
  }
}

interface Parts {
  pglite: PGlite;
  lock: DataDirLock | undefined;
  dataDir: string;
  options: DatabaseOptions;
}

function createDatabase({ pglite, lock, dataDir, options }: Parts): Database {
  const panic = watchForPanic(dataDir, options);
  const pool = openPool(pglite, { panic, options });
  const { app, maintenance, owner, queue } = pool.as;

  const database: Database = {
    kind: 'pglite',
    tookOverLock: lock?.tookOver ?? false,
    ...queriesOf({ app, maintenance }),
    listen: createListen(pglite, (text) => runStatement(app, { text })),
    async announceWorker(name) {
      await runStatement(queue, { text: ANNOUNCE_WORKER, values: [name] });
      return async () => {
        if (!pglite.closed) await runStatement(queue, { text: WITHDRAW_WORKER, values: [name] });
      };
    },
    queueConnection: () => createQueuePool((text, values) => runStatement(queue, { text, values }), database),
    asOwner: (work) => withConnection(owner, work),
    async close() {
      if (pglite.closed) return;
      await pool.close();
      // After a panic its memory is not to be trusted, and closing would write it.
      if (!panic.error()) await pglite.close();
      lock?.release();
    },
  };
  return database;
}

interface PanicWatch {
  /** What has stopped the database. */
  error: () => Error | undefined;
  watch: (client: pg.Client) => void;
}

/** A Postgres ends with a panic and goes on from what it has written; PGlite would go on as it is. */
function watchForPanic(dataDir: string, { onBroken }: DatabaseOptions): PanicWatch {
  let broken: Error | undefined;
  const onErrorMessage = ({ severity, message }: { severity?: string; message: string }) => {
    if (broken || severity !== 'PANIC') return;
    broken = new Error(
      `The database is closed: in ${dataDir} it has met with "${message}". What was committed is kept; start again when that is mended.`,
    );
    onBroken?.(broken);
  };
  return {
    error: () => broken,
    watch(client) {
      const { connection } = client as unknown as { connection: EventEmitter };
      connection.on('errorMessage', (message: { severity?: string; message: string }) => {
        onErrorMessage(message);
        // What was sent behind the statement that has met with it is never answered: whoever waits is told here. Nobody
        // listens to a client that has ended meanwhile.
        const tell = () => connection.listenerCount('error') > 0 && connection.emit('error', broken);
        if (broken) setImmediate(tell);
      });
    },
  };
}

function openPool(pglite: PGlite, { panic, options }: { panic: PanicWatch; options: DatabaseOptions }) {
  const report = options.onError ?? (() => undefined);
  const checkoutTimeoutMs = options.checkoutTimeoutMs ?? CHECKOUT_TIMEOUT_MS;
  const connect = async () => {
    const broken = panic.error();
    if (broken) throw broken;
    // Each client needs a connection object of its own: with a shared one, the end of one client would end its successor.
    const { createPgConfig } = await import('@electric-sql/pglite/node-postgres');
    const { connection } = createPgConfig(pglite);
    const client = new pg.Client(Object.assign({}, { host: 'localhost', pipeline: true, types: TYPES, connection }));
    client.on('error', report);
    panic.watch(client);
    await client.connect();
    // The session outlives the clients: a new one must not meet what a dropped one has left.
    await client.query("rollback; deallocate all; set timezone to 'UTC'");
    return client;
  };
  const busy =
    `The database was busy for ${checkoutTimeoutMs} ms. The embedded database has one session: ` +
    `a transaction that waits for another one never ends.`;
  return openKnexPool({ connect, max: 1, checkoutTimeoutMs, busy }, ['app', 'maintenance', 'owner', 'queue']);
}

function createListen(pglite: PGlite, execute: (text: string) => Promise<unknown>): Database['listen'] {
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
