import { RefusesWritesError } from '../lib/refuses-writes-error.ts';

/** How to bring a database to this version's schema. */
export const MIGRATE_FIRST = 'Run `npm run migrate` first (where only dist/ is there: `node dist/scripts/migrate.js`).';

/** A role is missing, cannot be assumed, or would see every tenant's rows. The message tells an administrator what to do. */
export class DatabaseRoleError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'DatabaseRoleError';
  }
}

/** All connections stayed in use longer than callers wait, although the database answers. */
export class DatabaseBusyError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'DatabaseBusyError';
  }
}

/** No connection was free, and the database answered on none of them meanwhile: it hangs, or others hold what all wait for. */
export class DatabaseSilentError extends Error {
  readonly waitedMs: number;
  constructor(message: string, { waitedMs, cause }: { waitedMs: number; cause: unknown }) {
    super(message, { cause });
    this.name = 'DatabaseSilentError';
    this.waitedMs = waitedMs;
  }
}

/** How long the database has answered nobody; undefined for any other error. */
export function silenceOf(error: unknown): number | undefined {
  if (error instanceof DatabaseSilentError) return error.waitedMs;
  return error instanceof Error ? silenceOf(error.cause) : undefined;
}

/**
 * Codes of sockets, name service and Postgres: 57P0x server shutting down, starting, or ending a session; 25006 read-only (a
 * replica, after another server took over); 53100 disk full.
 */
const AWAY_CODES = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ENOENT',
  '57P01',
  '57P02',
  '57P03',
  '57P05',
  '25P03',
  '25006',
  '53100',
  '53300',
]);

/** Errors of the drivers and the pool have no code, only these messages (pg, PGlite, `db/knex-client.ts`). */
const AWAY_MESSAGES =
  /^(Connection terminated|Query read timeout|timeout expired|Client has encountered a connection error|Client was closed|PGlite is clos|The database is closed|No answer from the database)/;

/** The database refused one of several changes, with Postgres's code. */
export class RefusedChangeError extends Error {
  readonly code: string;
  constructor({ code, message }: { code: string; message: string }) {
    super(message);
    this.name = 'RefusedChangeError';
    this.code = code;
  }
}

/** Whether `commit_run` refused a change because a tool call has left the state that the change expects. */
export function hasMovedOn(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'DR001';
}

/** Whether a statement exceeded its `lock_timeout`. */
export function isLockTimeout(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === '55P03';
}

/** Whether a statement exceeded its `statement_timeout`. */
export function isStatementTimeout(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === '57014';
}

/** Whether a migration changed the result of a prepared statement; a new connection prepares it again. */
export function isStalePlan(error: unknown): boolean {
  if (isUnprepared(error)) return true;
  return error instanceof Error && 'code' in error && error.code === '0A000' && /cached plan/.test(error.message);
}

/** Whether a statement did not run because the connection had not prepared one of its name. */
export function isUnprepared(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === '26000';
}

/** Whether the database answers, but had no free connection. */
export function isDatabaseBusy(error: unknown): boolean {
  return error instanceof DatabaseBusyError || (error instanceof Error && isDatabaseBusy(error.cause));
}

/** Whether a transaction was rolled back for a deadlock (40P01) or a serialization failure (40001). */
export function isConflictOfTransactions(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if ('code' in error && (error.code === '40P01' || error.code === '40001')) return true;
  return isConflictOfTransactions(error.cause);
}

/** Whether a statement was rolled back for a temporary reason: a conflict of transactions, or a timeout of statement or lock. */
export function isUndone(error: unknown): boolean {
  if (isConflictOfTransactions(error)) return true;
  if (!(error instanceof Error)) return false;
  return isStatementTimeout(error) || isLockTimeout(error) || isUndone(error.cause);
}

/** Whether no session came about: nothing answers at the server's address, or the server is just starting or stopping. */
export function isUnreachable(error: unknown): boolean {
  if (error instanceof AggregateError) return error.errors.some(isUnreachable);
  if (!(error instanceof Error)) return false;
  if ('syscall' in error && (error.syscall === 'connect' || error.syscall === 'getaddrinfo')) return true;
  // The latter is pg's own message for its timeout.
  return ('code' in error && error.code === '57P03') || error.message === 'timeout expired';
}

/** Notes on the error of a connection, for the log and `unreachedBy`, whose address it is. */
export function notedAs(error: unknown, variable: 'DATABASE_URL' | 'DATABASE_POOL_URL'): unknown {
  return error instanceof Error ? Object.assign(error, { variable }) : error;
}

/** The variable of the address over which no session came about; undefined for any other error. */
export function unreachedBy(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  if ('variable' in error && typeof error.variable === 'string' && isUnreachable(error)) return error.variable;
  return unreachedBy(error.cause);
}

/** Whether the database refuses further connections. */
export function isOutOfConnections(error: unknown): boolean {
  return error instanceof Error && (('code' in error && error.code === '53300') || isOutOfConnections(error.cause));
}

/** Whether the database refuses a statement for its values: a data exception (class 22), or one beyond the limits of a type (54000). */
export function isRefusedData(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if ('code' in error && typeof error.code === 'string' && /^(22\w{3}|54000)$/.test(error.code)) return true;
  return isRefusedData(error.cause);
}

/** Whether the database had no disk space for a write. */
export function isDiskFull(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === '53100';
}

/** Why the database answers and takes no writes, in a word or two; undefined if the error does not say so. */
export function refusalOf(error: unknown): 'disk full' | 'read-only' | undefined {
  if (isDiskFull(error)) return 'disk full';
  return error instanceof Error && 'code' in error && error.code === '25006' ? 'read-only' : undefined;
}

/** Whether Postgres panicked: its memory may be corrupt, and it recovers from what it has written. */
function isPanic(error: Error): boolean {
  return 'severity' in error && error.severity === 'PANIC';
}

/** Whether the same work may succeed a moment later: the database is away, or has undone it for a reason that passes. */
export function isPassing(error: unknown): boolean {
  return isDatabaseAway(error) || isUndone(error);
}

/** Whether the database was unreachable, went away or was too busy: worth a 503, and for a job a retry. */
export function isDatabaseAway(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (error instanceof DatabaseBusyError || error instanceof DatabaseSilentError) return true;
  if (error instanceof RefusesWritesError) return true;
  const code: unknown = 'code' in error ? error.code : undefined;
  // For a missing Unix socket, ENOENT comes with an address; for a missing file, with a path.
  if (code === 'ENOENT' && !('address' in error)) return false;
  if (typeof code === 'string' && (AWAY_CODES.has(code) || /^08\w{3}$/.test(code))) return true;
  if (AWAY_MESSAGES.test(error.message) || isPanic(error)) return true;
  if (error instanceof AggregateError && error.errors.some(isDatabaseAway)) return true;
  return isDatabaseAway(error.cause);
}
