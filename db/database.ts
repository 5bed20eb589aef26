import type { PostgresConnectionOptions } from 'bullmq';
import type { ClientBase } from 'pg';

export { hasMovedOn, isDatabaseAway, isDatabaseBusy } from './database-errors.ts';

/** After that a server has ended a statement, also one whose sender is gone. */
export const STATEMENT_TIMEOUT_MS = 30_000;

/** One transaction. `values` are sent apart from the text (`$1`, `$2`, …). */
export interface Tx {
  query<R extends object = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<R[]>;
  /** The last statement: commits along with it, in one round trip, irrevocably. */
  last<R extends object = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<R[]>;
}

/** A statement that each connection prepares once, by name. Each name has one text. */
export interface NamedStatement {
  name: string;
  text: string;
  values: readonly unknown[];
  /** Sent on a shared connection behind others like it, without waiting for their answers: for frequent, fast statements. */
  inLine?: true;
}

/**
 * The only access to the database, the same for Postgres and PGlite. Results: int8 is a number, numeric a string, timestamptz
 * a Date, date a string (`2026-01-31`), json and jsonb parsed, bytea a Buffer. The session's time zone is UTC.
 * Never hold a transaction over anything but its own queries (a queue call, a model, HTTP, another transaction): on PGlite all
 * of them share one session, and an inner one waits until its checkout times out.
 */
export interface Database {
  readonly kind: 'postgres' | 'pglite';
  /** PGlite: a dead process had left the data directory's lock, so all its leases are void. */
  readonly tookOverLock: boolean;
  /** Runs a transaction as drover_app with the tenant set, so that row level security shows only its rows. */
  withTenant<T>(tenantId: string, work: (tx: Tx) => Promise<T>): Promise<T>;
  /** Like `withTenant`, in one round trip, for a single statement whose plan fits all values; a second one is refused. */
  withTenantOnce<T>(tenantId: string, work: (tx: Tx) => Promise<T>): Promise<T>;
  /** Like `withTenant`, for reading: all statements see the same snapshot, that of the first. */
  withTenantSnapshot<T>(tenantId: string, work: (tx: Tx) => Promise<T>): Promise<T>;
  /** Runs a transaction as drover_maintenance, for acts without a tenant yet. */
  asMaintenance<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
  /** One autocommitted statement in one round trip, as drover_app; for SQL functions that set the tenant themselves. */
  call<R extends object = Record<string, unknown>>(statement: NamedStatement): Promise<R[]>;
  /**
   * Throws if the database answers neither this nor other users of the pool within `timeoutMs`; `RefusesWritesError` if it is
   * read-only. Where all connections wait for a lock, it asks over a spare one.
   */
  ping(timeoutMs: number): Promise<void>;
  /**
   * Runs a transaction that reads, like `asMaintenance`, under the rules of `ping`. Throws what `work` throws; `work` has not
   * come to its end where the database answers only others.
   */
  inspect(timeoutMs: number, work: (tx: Tx) => Promise<void>): Promise<void>;
  /**
   * LISTENs, on a separate connection if there is more than one. Reconnects automatically, and then calls `onReconnect`, since
   * notifications may have been lost. Rejects if the first LISTEN fails. The returned function stops it.
   */
  listen(channel: string, onPayload: (payload: string) => void, onReconnect: () => void): Promise<() => Promise<void>>;
  /**
   * Shows all sessions that this process has a worker for the queue (`listQueueWorkers`), as long as its listening connection
   * lives or until the returned function is called.
   */
  announceWorker(queue: string): Promise<() => Promise<void>>;
  /** The `connection` for BullMQ's Postgres backend: as the session's owner, in the schema `bullmq`. */
  queueConnection(): PostgresConnectionOptions;
  /** Runs `work` with a client of the tables' owner; for migrations, and for indexes created beside writers. */
  asOwner<T>(work: (client: ClientBase) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

/** The database's part of the configuration. */
export interface DatabaseSettings {
  /** Without a URL, the database is PGlite in `dataDir`. */
  readonly databaseUrl: string | undefined;
  /** The same database through a pooler without sessions, for work as drover_app; undefined: no pooler. */
  readonly databasePoolUrl?: string | undefined;
  /** An absolute path, or `memory:`. */
  readonly dataDir: string;
  readonly poolSize: number;
}

export interface DatabaseOptions {
  /** How long callers wait for a connection before they get an error; default: 10000 ms on Postgres, 15000 ms on PGlite. */
  checkoutTimeoutMs?: number;
  /** Called for lost connections, which are replaced automatically. */
  onError?: (error: Error) => void;
  /** Called once if the embedded database cannot continue in this process; it is unavailable from then on. */
  onBroken?: (error: Error) => void;
  /** Called with a sentence for people if opening waits for a sign of another process; embedded only. */
  onWait?: (message: string) => void;
}

/** The result of a SQL function: one row with one column. */
export function resultOf<R>(rows: { result: R }[]): R {
  const row = rows[0];
  if (!row) throw new Error('a function of the database answered no row');
  return row.result;
}
