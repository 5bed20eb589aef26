import createKnex from 'knex';
import type { Knex } from 'knex';
import type { Client, ClientBase, ClientConfig, QueryResult } from 'pg';
import { DatabaseBusyError, DatabaseSilentError, isDatabaseAway, isDiskFull, isStalePlan } from './database-errors.ts';
import { becomeOwner, type ConnectionOwner } from './connection-owner.ts';
import { createStatementNames, type StatementNames } from './statement-names.ts';

/** Settings of a pool: how to connect, maximum size, and how long callers wait. */
export interface PoolSettings {
  /** Opens a connection that is ready for use, in pipeline mode. */
  connect: () => Promise<Client>;
  max: number;
  checkoutTimeoutMs: number;
  /** Idle time in ms before a connection is closed; absent: one is kept. */
  idleTimeoutMs?: number;
  /** Sessions behind the connections may change between transactions, so statements are not prepared by name. */
  isPooled?: boolean;
  /** Awaited by each user once its connection is free for others: until what it has seen and done is sure to last. */
  settle?: () => Promise<void>;
  /** The error message for callers who waited in vain. */
  busy: string;
  /** The same if the database has answered nobody meanwhile; absent: it cannot be unavailable. */
  away?: string;
}

/** A Knex for each owner on whose behalf connections act. */
export interface KnexPool<O extends ConnectionOwner> {
  readonly as: Readonly<Record<O, Knex>>;
  /** Waits for connections in use. */
  close(): Promise<void>;
}

/** A statement with values `$1`, `$2`, …; a name makes each connection prepare it once. Frequent ones get one automatically. */
export interface Statement {
  text: string;
  values?: readonly unknown[];
  name?: string;
  /** Number of unanswered statements before it on the connection; its timeout is extended by theirs. */
  behind?: number;
}

/** A statement in the form Knex's client takes. */
interface NativeStatement {
  sql: string;
  bindings?: readonly unknown[];
  options?: { name?: string };
  behind?: number;
  /** Its values are already numbered, and a question mark is a jsonb operator. */
  numbered?: true;
  response?: QueryResult;
}

interface ClientSettings extends Knex.Config {
  owner: ConnectionOwner;
  settings: PoolSettings;
  state: { closed: boolean; nameOf: StatementNames; answeredAtMs: number; fullAtMs: number };
}

/** Connections unfit for reuse: their database went away, or a plan of theirs is stale. */
const spent = new WeakSet<ClientBase>();

/** Knex also throws what it would print, and listeners have reported lost connections. */
const SILENT: Knex.Logger = { warn: () => undefined, error: () => undefined, deprecate: () => undefined };

/** Opens a Knex pool. Connections checked out through one of its Knexes act for that one's owner. */
export function openKnexPool<O extends ConnectionOwner>(settings: PoolSettings, owners: readonly O[]): KnexPool<O> {
  const { max, checkoutTimeoutMs, idleTimeoutMs } = settings;
  const never = Number.NEGATIVE_INFINITY;
  const state = { closed: false, nameOf: createStatementNames(), answeredAtMs: never, fullAtMs: never };
  const pool: Knex.PoolConfig = {
    max,
    min: idleTimeoutMs === undefined ? 1 : 0,
    acquireTimeoutMillis: checkoutTimeoutMs,
    ...(idleTimeoutMs !== undefined && { idleTimeoutMillis: idleTimeoutMs }),
  };
  const instances: Knex[] = [];
  const open = (owner: O): [O, Knex] => {
    const shared = (instances[0]?.client as KnexClient | undefined)?.pool;
    const own = shared === undefined ? { connection: {}, pool } : { connectionPool: shared };
    const config: ClientSettings = { client: KnexClient, log: SILENT, owner, settings, state, ...own };
    const knex = createKnex(config);
    instances.push(knex);
    return [owner, knex];
  };
  return {
    as: Object.fromEntries(owners.map(open)) as Record<O, Knex>,
    async close() {
      state.closed = true;
      await instances[0]?.destroy();
    },
  };
}

/** Runs `work` on a connection of the pool, exclusively. */
export async function withConnection<T>(knex: Knex, work: (connection: ClientBase) => Promise<T>): Promise<T> {
  const client = knex.client as KnexClient;
  const connection = await client.acquireConnection();
  try {
    return await work(connection);
  } catch (error) {
    if (isDatabaseAway(error) || isStalePlan(error)) spent.add(connection);
    throw error;
  } finally {
    await client.releaseConnection(connection);
    await client.config.settings.settle?.();
  }
}

/** Throws if the pool is closed: running work continues, but none is started. */
export function refuseClosed(knex: Knex): void {
  (knex.client as KnexClient).refuseClosed();
}

/** Whether the pool has only one connection. */
export function hasOneConnection(knex: Knex): boolean {
  return (knex.client as KnexClient).config.settings.max === 1;
}

/** Whether every connection that the pool may have is in use or being opened. */
export function isFull(knex: Knex): boolean {
  const { pool, config } = knex.client as KnexClient;
  if (pool === undefined || !('numUsed' in pool)) return false;
  return pool.numUsed() + pool.numPendingCreates() >= config.settings.max;
}

/** Whether any statement was answered on a connection of the pool since then (`performance.now()`). */
export function hasAnsweredSince(knex: Knex, sinceMs: number): boolean {
  return (knex.client as KnexClient).config.state.answeredAtMs >= sinceMs;
}

/** How long a server whose disk was full is assumed to be; only writing would tell. */
const FULL_MS = 15_000;

/** Whether a write on a connection of the pool recently failed for lack of disk space. */
export function wasFull(knex: Knex): boolean {
  return performance.now() - (knex.client as KnexClient).config.state.fullAtMs < FULL_MS;
}

/** Buffers what is sent on the connection; the returned function sends all of it in one write. */
export function holdWrites(connection: ClientBase): () => void {
  const { stream } = (connection as unknown as { connection: { stream: { cork?(): void; uncork?(): void } } })
    .connection;
  stream.cork?.();
  return () => stream.uncork?.();
}

/** Runs one statement on a connection of the pool. */
export async function runStatement<R extends object>(knex: Knex, statement: Statement): Promise<QueryResult<R>> {
  return withConnection(knex, (connection) => sendStatement<R>(knex, connection, statement));
}

/**
 * Sends a statement synchronously, and returns its result. Uses Knex's client without `knex.raw`, whose events, options and
 * copies cost node 60 us a statement, a third of its total cost.
 */
export async function sendStatement<R extends object>(
  knex: Knex,
  connection: ClientBase,
  { text, values = [], name, behind }: Statement,
): Promise<QueryResult<R>> {
  const native: NativeStatement = { sql: text, bindings: values, numbered: true };
  if (name !== undefined) native.options = { name };
  if (behind !== undefined) native.behind = behind;
  return (knex.client as KnexClient).query(connection as Client, native).then(answerOf<R>);
}

function answerOf<R extends object>({ response }: NativeStatement): QueryResult<R> {
  if (response === undefined) throw new Error('A statement came back without its answer.');
  return response as QueryResult<R>;
}

/** Knex's Postgres dialect, which its types omit. */
const PostgresClient = createKnex({ client: 'pg' }).client.constructor as typeof createKnex.Client;

/** Knex's Postgres client with Drover's session guarantees. */
class KnexClient extends PostgresClient {
  declare config: ClientSettings;

  override async acquireRawConnection(): Promise<Client> {
    const connection = await this.config.settings.connect();
    const spend = () => void spent.add(connection);
    connection.on('error', spend);
    connection.on('end', spend);
    return connection;
  }

  /** Called by Knex before it hands out a connection; refused ones are dropped. */
  override async validateConnection(connection: ClientBase): Promise<boolean> {
    return !spent.has(connection);
  }

  override async acquireConnection(): Promise<Client> {
    const { owner, settings, state } = this.config;
    this.refuseClosed();
    const sinceMs = performance.now();
    let connection: Client;
    try {
      connection = (await super.acquireConnection()) as Client;
    } catch (error) {
      this.refuseClosed(error);
      // Knex's message refers to an API that is not used here.
      if (!(error instanceof createKnex.KnexTimeoutError)) throw error;
      if (settings.away === undefined || state.answeredAtMs >= sinceMs) throw new DatabaseBusyError(settings.busy);
      throw new DatabaseSilentError(settings.away, { waitedMs: settings.checkoutTimeoutMs, cause: error });
    }
    try {
      await becomeOwner(connection, owner);
    } catch (error) {
      spent.add(connection);
      await this.releaseConnection(connection);
      throw error;
    }
    return connection;
  }

  refuseClosed(cause?: unknown): void {
    if (this.config.state.closed) throw new Error('The database is closed.', { cause });
  }

  /** Closes spent connections, and ones with an open transaction, at once: they may hold locks. */
  override async releaseConnection(connection: Client): Promise<void> {
    const status = connection.getTransactionStatus();
    if (status !== null && status !== 'I') spent.add(connection);
    if (spent.has(connection)) connection.end().catch(() => undefined);
    await super.releaseConnection(connection);
  }

  /** Like Knex's own, but keeps the server's error message: Knex prepends the statement, with its values and secrets. */
  override async query(connection: Client, query: string | NativeStatement): Promise<NativeStatement> {
    const statement: NativeStatement = typeof query === 'string' ? { sql: query } : query;
    if (statement.numbered !== true) statement.sql = this.positionBindings(statement.sql) as string;
    this.emit('query', statement);
    try {
      const { sql: text, bindings = [], options, behind = 0 } = statement;
      const { settings, state } = this.config;
      const timeoutMs = behind > 0 && queryTimeoutMsOf(connection);
      const own = options?.name ?? (bindings.length > 0 ? state.nameOf(text) : undefined);
      const name = settings.isPooled === true ? undefined : own;
      statement.response = await connection.query({
        ...(name && { name }),
        text,
        values: bindings as unknown[],
        ...(timeoutMs && { query_timeout: timeoutMs * (behind + 1) }),
      });
      state.answeredAtMs = performance.now();
      return statement;
    } catch (error) {
      if (isDiskFull(error)) this.config.state.fullAtMs = performance.now();
      this.emit('query-error', error, statement);
      throw error;
    }
  }
}

/** Timeout of a statement on this connection; undefined: none. */
function queryTimeoutMsOf(connection: Client): number | undefined {
  const { connectionParameters } = connection as unknown as { connectionParameters: ClientConfig };
  return connectionParameters.query_timeout;
}
