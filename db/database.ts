import type { PostgresConnectionOptions } from 'bullmq';
import type { ClientBase } from 'pg';

export { hasMovedOn, isDatabaseAway, isDatabaseBusy } from './database-errors.ts';

/** One transaction. `values` are sent apart from the text (`$1`, `$2`, …). */
export interface Tx {
  query<R extends object = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<R[]>;
  /** The last statement: the transaction is committed along with it, in one round trip, and nothing after it takes that back. */
  last<R extends object = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<R[]>;
}

/** A statement that each connection prepares once, under its name. One name, one text. */
export interface NamedStatement {
  name: string;
  text: string;
  values: readonly unknown[];
  /** Sent behind those like it, on their connection, without waiting for their answers: for what comes often and is soon done. */
  inLine?: true;
}

/**
 * The one way to the database, the same on Postgres and on PGlite. Values come as: int8 a number, numeric a string,
 * timestamptz a Date, date a string (`2026-01-31`), json and jsonb parsed, bytea a Buffer. The session's clock is UTC.
 *
 * Never hold a transaction over anything but its own queries (a queue call, a model, HTTP, another transaction): on
 * PGlite all of them share one session, and the inner one waits until its checkout times out.
 */
export interface Database {
  readonly kind: 'postgres' | 'pglite';
  /** PGlite: the data directory's lock was left by a process that is dead, so whatever it had leased is void. */
  readonly tookOverLock: boolean;
  /** Transaction as role drover_app with the tenant set, so that row level security shows its rows and no others. */
  withTenant<T>(tenantId: string, work: (tx: Tx) => Promise<T>): Promise<T>;
  /** As `withTenant`, in one round trip, for work of one statement, of which one plan fits all values: a second one is refused. */
  withTenantOnce<T>(tenantId: string, work: (tx: Tx) => Promise<T>): Promise<T>;
  /** As `withTenant`, for reading: all statements see what was there at the first of them. */
  withTenantSnapshot<T>(tenantId: string, work: (tx: Tx) => Promise<T>): Promise<T>;
  /** Transaction as role drover_maintenance, for acts that have no tenant yet. */
  asMaintenance<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
  /** One statement in one round trip, autocommitted, as drover_app; for SQL functions that set the tenant themselves. */
  call<R extends object = Record<string, unknown>>(statement: NamedStatement): Promise<R[]>;
  /**
   * Throws where the database answers nothing within `timeoutMs`, neither this nor those who have all the connections; a
   * `RefusesWritesError` where it is read-only.
   */
  ping(timeoutMs: number): Promise<void>;
  /**
   * LISTEN, on a connection of its own if there is more than one. It reconnects by itself; `onReconnect` is called
   * after a gap in which notifications may have been lost. Rejects where the first LISTEN fails. The function it gives stops it.
   */
  listen(channel: string, onPayload: (payload: string) => void, onReconnect: () => void): Promise<() => Promise<void>>;
  /**
   * Lets every session see that this process has a worker for the queue, for as long as its listening connection lives or
   * until the function it gives is called (`listQueueWorkers`).
   */
  announceWorker(queue: string): Promise<() => Promise<void>>;
  /** What BullMQ's Postgres backend takes as `connection`: the session owner's, in the schema `bullmq`. */
  queueConnection(): PostgresConnectionOptions;
  /** A client of the session's owner, who made the tables; for migrations, and for an index that is made beside whoever writes. */
  asOwner<T>(work: (client: ClientBase) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

/** What the database needs of the configuration. */
export interface DatabaseSettings {
  /** Without one the database is PGlite, in `dataDir`. */
  readonly databaseUrl: string | undefined;
  /** The same database behind a pooler that keeps no sessions, for what is done as drover_app; undefined: not pooled. */
  readonly databasePoolUrl?: string | undefined;
  /** An absolute path, or `memory:`. */
  readonly dataDir: string;
  readonly poolSize: number;
}

export interface DatabaseOptions {
  /** How long a caller waits for a connection before it gets an error; 10000 ms on Postgres, 15000 ms on PGlite. */
  checkoutTimeoutMs?: number;
  /** Told of lost connections, which are replaced by themselves. */
  onError?: (error: Error) => void;
  /** Told once where the embedded database cannot go on in this process: from then on it is away. */
  onBroken?: (error: Error) => void;
}

/** What a SQL function answers: one row with one column. */
export function resultOf<R>(rows: { result: R }[]): R {
  const row = rows[0];
  if (!row) throw new Error('a function of the database answered no row');
  return row.result;
}
