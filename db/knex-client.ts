import createKnex from 'knex';
import type { Knex } from 'knex';
import type { Client, ClientBase, ClientConfig, QueryResult } from 'pg';
import { DatabaseBusyError, isDatabaseAway, isDiskFull, isStalePlan } from './database-errors.ts';
import { becomeOwner, type SessionOwner } from './session.ts';
import { createStatementNames, type StatementNames } from './statement-names.ts';

/** How a pool makes its connections, how many, and how long a caller waits for one. */
export interface PoolSettings {
  /** Gives a new connection that is ready to be used, in pipeline mode. */
  connect: () => Promise<Client>;
  max: number;
  checkoutTimeoutMs: number;
  /** How long a connection may lie unused before it is closed; without it one is kept. */
  idleTimeoutMs?: number;
  /** The sessions behind the connections change from one transaction to the next: statements are prepared under no name. */
  isPooled?: boolean;
  /** What a caller is told who has waited in vain. */
  busy: string;
  /** The same where the database has answered nobody meanwhile; absent: it cannot be away. */
  away?: string;
}

/** A Knex for each of those that a pool's connections act for. */
export interface KnexPool<O extends SessionOwner> {
  readonly as: Readonly<Record<O, Knex>>;
  /** Waits for those who still use a connection. */
  close(): Promise<void>;
}

/** A statement whose values are `$1`, `$2`, …; under a name each connection prepares it once. One that comes often is given one. */
export interface Statement {
  text: string;
  values?: readonly unknown[];
  name?: string;
  /** How many that were sent before it on the connection have no answer yet: it is waited for as long as each of them, too. */
  behind?: number;
}

/** A statement as Knex's client takes it. */
interface NativeStatement {
  sql: string;
  bindings?: readonly unknown[];
  options?: { name?: string };
  behind?: number;
  /** Its values are numbered already, and a question mark is an operator of jsonb. */
  numbered?: true;
  response?: QueryResult;
}

interface ClientSettings extends Knex.Config {
  owner: SessionOwner;
  settings: PoolSettings;
  state: { closed: boolean; nameOf: StatementNames; answeredAtMs: number; fullAtMs: number };
}

/** Connections that the next user could suffer from: their database went away, or a plan of theirs is stale. */
const spent = new WeakSet<ClientBase>();

/** What Knex would print it also throws, and the listeners of a connection have told of its loss. */
const SILENT: Knex.Logger = { warn: () => undefined, error: () => undefined, deprecate: () => undefined };

/** Opens a pool of Knex's. What is checked out through one of its Knexes acts for that one's owner. */
export function openKnexPool<O extends SessionOwner>(settings: PoolSettings, owners: readonly O[]): KnexPool<O> {
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

/** Runs `work` on a connection of the pool that nobody else uses meanwhile. */
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
  }
}

/** Throws once the pool is closed: what is under way goes on, and nothing else begins. */
export function refuseClosed(knex: Knex): void {
  (knex.client as KnexClient).refuseClosed();
}

/** Whether all of a pool share one connection. */
export function hasOneConnection(knex: Knex): boolean {
  return (knex.client as KnexClient).config.settings.max === 1;
}

/** Whether anybody's statement was answered on a connection of the pool since then, by `performance.now()`. */
export function hasAnsweredSince(knex: Knex, sinceMs: number): boolean {
  return (knex.client as KnexClient).config.state.answeredAtMs >= sinceMs;
}

/** How long one that had no room for what was written counts as full: nobody finds out but by writing. */
const FULL_MS = 15_000;

/** Whether the server had no room left a moment ago for what was written on a connection of the pool. */
export function wasFull(knex: Knex): boolean {
  return performance.now() - (knex.client as KnexClient).config.state.fullAtMs < FULL_MS;
}

/** Holds back what is sent on the connection until the function is called that it gives: all of it goes in one write then. */
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
 * Sends a statement before it returns, and answers its result. This is Knex's client without the query that `knex.raw`
 * makes: that one's events, options and copies cost node 60 us a statement, a third of all that a statement costs it.
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

/** Knex's dialect of Postgres, which its types do not name. */
const PostgresClient = createKnex({ client: 'pg' }).client.constructor as typeof createKnex.Client;

/** Knex's client for Postgres, with what Drover promises of a session. */
class KnexClient extends PostgresClient {
  declare config: ClientSettings;

  override async acquireRawConnection(): Promise<Client> {
    const connection = await this.config.settings.connect();
    const spend = () => void spent.add(connection);
    connection.on('error', spend);
    connection.on('end', spend);
    return connection;
  }

  /** Knex asks before it gives a connection away, and drops one that is refused. */
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
      // Knex's own words speak of a call that nobody here makes.
      if (!(error instanceof createKnex.KnexTimeoutError)) throw error;
      if (settings.away === undefined || state.answeredAtMs >= sinceMs) throw new DatabaseBusyError(settings.busy);
      throw new Error(settings.away, { cause: error });
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

  /** A spent connection, or one with an open transaction, is closed at once: it may hold locks. */
  override async releaseConnection(connection: Client): Promise<void> {
    const status = connection.getTransactionStatus();
    if (status !== null && status !== 'I') spent.add(connection);
    if (spent.has(connection)) connection.end().catch(() => undefined);
    await super.releaseConnection(connection);
  }

  /** As Knex's own, but an error keeps the server's words: Knex puts the statement in front, values and secrets included. */
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

/** How long a connection may leave a statement unanswered; undefined: for ever. */
function queryTimeoutMsOf(connection: Client): number | undefined {
  const { connectionParameters } = connection as unknown as { connectionParameters: ClientConfig };
  return connectionParameters.query_timeout;
}
