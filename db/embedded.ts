import type { EventEmitter } from 'node:events';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import type { PGlite } from '@electric-sql/pglite';
import pg from 'pg';
import { beginCluster } from './begin-cluster.ts';
import { ofDataDir } from './data-dir-error.ts';
import { type DataDirLock, lockDataDir } from './data-dir-lock.ts';
import type { Database, DatabaseOptions } from './database.ts';
import { openKnexPool, runStatement, withConnection } from './knex-client.ts';
import { queriesOf } from './queries.ts';
import { ANNOUNCE_WORKER, createQueuePool, WITHDRAW_WORKER } from './queue-pool.ts';
import { ensureRoles } from './roles.ts';
import { checkRoles } from './connection-owner.ts';
import { openSyncedFiles } from './synced-files.ts';
import { TYPES } from './value-types.ts';

const IN_MEMORY = 'memory:';
const IN_MEMORY_URL = 'memory://';
const CHECKOUT_TIMEOUT_MS = 15_000;

/** The database's path in a data directory; undefined if nothing is stored. */
export const clusterIn = (dataDir: string): string | undefined =>
  dataDir === IN_MEMORY ? undefined : join(dataDir, 'pgdata');

/**
 * Opens PGlite in `<dataDir>/pgdata`, or in memory; see `openDatabase`. There is one session. A pool with one connection to it
 * serves as lock, so that transactions never interleave.
 */
export async function openEmbedded(dataDir: string, options: DatabaseOptions): Promise<Database> {
  let lock: DataDirLock | undefined;
  try {
    const panic = watchForPanic(dataDir, options);
    lock =
      dataDir === IN_MEMORY ? undefined : await lockDataDir(dataDir, { onLost: () => panic.raise(LOST), ...options });
    const opened = await openPglite(clusterIn(dataDir), (error) => panic.raise(`${NOT_SYNCED}: ${String(error)}`));
    const database = createDatabase({ ...opened, lock, panic, options });
    await prepare(database);
    return database;
  } catch (error) {
    lock?.release();
    throw ofDataDir(dataDir, error);
  }
}

/** PGlite's own are 160 MB of buffers, all of which are memory of the process in the end. One session needs few of anything. */
const SETTINGS = ['shared_buffers=32MB', 'wal_buffers=1MB', 'max_connections=10'];

/**
 * How much a function of PGlite runs before V8 optimizes it, in bytes of its code. Node 20's own, 1.8 million, has it optimize
 * what a start alone calls often: a quarter of the CPU of a start. What many statements call is still optimized soon.
 */
const RUNS_BEFORE_OPTIMIZED = '--wasm-tiering-budget=60000000';

/** For files that a power cut leaves as Postgres expects. Of its ways to sync its log, PGlite passes on this one alone. */
const SYNCED = ['wal_sync_method=fsync'];
/** PGlite's own parameter for none of it. */
const UNSYNCED = '-F';

interface OpenPglite {
  pglite: PGlite;
  /** Resolves once everything committed so far is on the disk; undefined in memory. */
  settle: (() => Promise<void>) | undefined;
}

/** Loaded on demand: modes with a server do not need it. */
async function openPglite(cluster: string | undefined, onNotSynced: (error: unknown) => void): Promise<OpenPglite> {
  // Later versions wait seven times as long by themselves, and might not know the flag.
  if (process.versions.v8.startsWith('11.')) setFlagsFromString(RUNS_BEFORE_OPTIMIZED);
  const { PGlite: Pglite } = await import('@electric-sql/pglite');
  const { vector } = await import('@electric-sql/pglite-pgvector');
  const extensions = { vector };
  const option = (setting: string) => ['-c', setting];
  if (cluster === undefined) {
    const startParams = [...Pglite.defaultStartParams, ...SETTINGS.flatMap(option)];
    return { pglite: await Pglite.create({ dataDir: IN_MEMORY_URL, extensions, startParams }), settle: undefined };
  }
  const finish = await beginCluster(cluster);
  const { files, settle } = await openSyncedFiles(cluster, onNotSynced);
  const synced = Pglite.defaultStartParams.filter((param) => param !== UNSYNCED);
  const startParams = [...synced, ...[...SETTINGS, ...SYNCED].flatMap(option)];
  const pglite = await Pglite.create({ fs: files, extensions, startParams });
  await finish?.();
  return { pglite, settle };
}

/** Closes a database that cannot be used, since its pool would keep the process alive. */
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

interface Parts extends OpenPglite {
  lock: DataDirLock | undefined;
  panic: PanicWatch;
  options: DatabaseOptions;
}

function createDatabase({ pglite, settle, lock, panic, options }: Parts): Database {
  const pool = openPool(pglite, { settle, panic, options });
  const { app, maintenance, owner, queue } = pool.as;

  const database: Database = {
    kind: 'pglite',
    tookOverLock: lock?.tookOver ?? false,
    ...queriesOf({ app, maintenance, spare: maintenance }),
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
      // After a panic its memory cannot be trusted, and closing would write it.
      if (!panic.error()) {
        await pglite.close();
        await settle?.();
      }
      lock?.release();
    },
  };
  return database;
}

/** What a process meets with that stood still while another one took over its directory. */
const LOST = 'another process, which has taken over the directory';

/** What it meets with where the disk does not say that it has the log. */
const NOT_SYNCED = 'its log cannot be synced';

interface PanicWatch {
  /** The error that stopped the database. */
  error: () => Error | undefined;
  /** Stops it. */
  raise: (met: string) => void;
  watch: (client: pg.Client) => void;
}

/** Postgres would stop after a panic and recover from what it has written; PGlite would continue regardless. */
function watchForPanic(dataDir: string, { onBroken }: DatabaseOptions): PanicWatch {
  let broken: Error | undefined;
  const connections = new Set<EventEmitter>();
  const raise = (met: string) => {
    if (broken) return;
    broken = new Error(
      `The database is closed: in ${dataDir} it has met with "${met}". What was committed is kept; start again when that is mended.`,
    );
    onBroken?.(broken);
    for (const connection of connections) tell(connection);
  };
  // Statements sent behind the panicking one are never answered, so their callers are told here. A client that has ended
  // has no listeners.
  const tell = (connection: EventEmitter) =>
    setImmediate(() => connection.listenerCount('error') > 0 && connection.emit('error', broken));
  return {
    error: () => broken,
    raise,
    watch(client) {
      const { connection } = client as unknown as { connection: EventEmitter };
      connections.add(connection);
      client.once('end', () => connections.delete(connection));
      connection.on('errorMessage', ({ severity, message }: { severity?: string; message: string }) => {
        if (severity === 'PANIC') raise(message);
        else if (broken) tell(connection);
      });
    },
  };
}

function openPool(pglite: PGlite, { settle, panic, options }: Pick<Parts, 'settle' | 'panic' | 'options'>) {
  const report = options.onError ?? (() => undefined);
  const checkoutTimeoutMs = options.checkoutTimeoutMs ?? CHECKOUT_TIMEOUT_MS;
  const connect = async () => {
    const broken = panic.error();
    if (broken) throw broken;
    // Each client needs its own connection object: with a shared one, the end of one client would end its successor.
    const { createPgConfig } = await import('@electric-sql/pglite/node-postgres');
    const { connection } = createPgConfig(pglite);
    const client = new pg.Client(Object.assign({}, { host: 'localhost', pipeline: true, types: TYPES, connection }));
    client.on('error', report);
    panic.watch(client);
    await client.connect();
    // The session outlives clients: a new one must not inherit state from a dropped one.
    await client.query("rollback; deallocate all; set timezone to 'UTC'");
    return client;
  };
  const busy =
    `The database was busy for ${checkoutTimeoutMs} ms. The embedded database has one session: ` +
    `a transaction that waits for another one never ends.`;
  const settleOrBreak = async () => {
    await settle?.().catch((error: unknown) => {
      throw panic.error() ?? error;
    });
    // What was begun in the very turn of the event loop in which it broke.
    const broken = panic.error();
    if (broken) throw broken;
  };
  const settings = { connect, max: 1, checkoutTimeoutMs, busy, ...(settle && { settle: settleOrBreak }) };
  return openKnexPool(settings, ['app', 'maintenance', 'owner', 'queue']);
}

function createListen(pglite: PGlite, execute: (text: string) => Promise<unknown>): Database['listen'] {
  const listeners = new Map<string, number>();
  return async (channel, onPayload) => {
    const stopHearing = pglite.onNotification((from, payload) => {
      if (from === channel) onPayload(payload);
    });
    listeners.set(channel, (listeners.get(channel) ?? 0) + 1);
    // Takes its turn like any statement: within another's transaction it would be rolled back with it.
    await execute(`listen ${pg.escapeIdentifier(channel)}`);
    return async () => {
      stopHearing();
      const left = (listeners.get(channel) ?? 1) - 1;
      listeners.set(channel, left);
      if (left === 0 && !pglite.closed) await execute(`unlisten ${pg.escapeIdentifier(channel)}`);
    };
  };
}
