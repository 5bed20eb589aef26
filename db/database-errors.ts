import { RefusesWritesError } from '../lib/refuses-writes-error.ts';

/** What brings a database to this version's schema. */
export const MIGRATE_FIRST = 'Run `npm run migrate` first (where only dist/ is there: `node dist/scripts/migrate.js`).';

/** A role is missing, may not be taken, or would see every tenant's rows. The message says what an administrator can do. */
export class DatabaseRoleError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'DatabaseRoleError';
  }
}

/** Every connection was in use for as long as a caller waits for one, by a database that answers. */
export class DatabaseBusyError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'DatabaseBusyError';
  }
}

/**
 * Socket and name service errors, and Postgres's own: 57P0x is a server going down, coming up or ending a session, 25006 one
 * that takes no writes (a replica, since another has taken its place), 53100 one whose disk is full.
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

/** The drivers' own errors and the pool's carry no code, only these words (pg, PGlite, `db/knex-client.ts`). */
const AWAY_MESSAGES =
  /^(Connection terminated|Query read timeout|timeout expired|Client has encountered a connection error|Client was closed|PGlite is clos|The database is closed|No answer from the database)/;

/** One of several changes was refused by the database, with the code that Postgres gives. */
export class RefusedChangeError extends Error {
  readonly code: string;
  constructor({ code, message }: { code: string; message: string }) {
    super(message);
    this.name = 'RefusedChangeError';
    this.code = code;
  }
}

/** Whether `commit_run` refused a change because a tool call is no longer in the state that the change was made for. */
export function hasMovedOn(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'DR001';
}

/** Whether a statement gave up waiting for a lock, as its `lock_timeout` says. */
export function isLockTimeout(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === '55P03';
}

/** Whether a statement was ended as its `statement_timeout` says. */
export function isStatementTimeout(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === '57014';
}

/** Whether a statement was prepared before a migration changed what it gives; a new connection prepares it anew. */
export function isStalePlan(error: unknown): boolean {
  if (isUnprepared(error)) return true;
  return error instanceof Error && 'code' in error && error.code === '0A000' && /cached plan/.test(error.message);
}

/** Whether a statement was not run since its connection had none of its name. */
export function isUnprepared(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === '26000';
}

/** Whether the database answers, but had no connection to spare. */
export function isDatabaseBusy(error: unknown): boolean {
  return error instanceof DatabaseBusyError || (error instanceof Error && isDatabaseBusy(error.cause));
}

/** Whether a transaction was undone since it and another one waited for each other (40P01), or could not be put in an order (40001). */
export function isConflictOfTransactions(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if ('code' in error && (error.code === '40P01' || error.code === '40001')) return true;
  return isConflictOfTransactions(error.cause);
}

/** Whether a statement did nothing for a reason that passes: a conflict of transactions, or a time or lock that ran out. */
export function isUndone(error: unknown): boolean {
  if (isConflictOfTransactions(error)) return true;
  if (!(error instanceof Error)) return false;
  return isStatementTimeout(error) || isLockTimeout(error) || isUndone(error.cause);
}

/** Whether the database has no connection left for whoever asks. */
export function isOutOfConnections(error: unknown): boolean {
  return error instanceof Error && (('code' in error && error.code === '53300') || isOutOfConnections(error.cause));
}

/** Whether the database has no room for what was written. */
export function isDiskFull(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === '53100';
}

/** Whether Postgres stops with it: what was in its memory may be wrong, and it goes on from what it has written. */
function isPanic(error: Error): boolean {
  return 'severity' in error && error.severity === 'PANIC';
}

/** Whether the database could not be reached, went away or was too busy: worth a 503, and for a job worth another try later. */
export function isDatabaseAway(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (error instanceof DatabaseBusyError || error instanceof RefusesWritesError) return true;
  const code: unknown = 'code' in error ? error.code : undefined;
  // ENOENT is a Unix socket that is not there; a missing file has a path, a socket an address.
  if (code === 'ENOENT' && !('address' in error)) return false;
  if (typeof code === 'string' && (AWAY_CODES.has(code) || /^08\w{3}$/.test(code))) return true;
  if (AWAY_MESSAGES.test(error.message) || isPanic(error)) return true;
  if (error instanceof AggregateError && error.errors.some(isDatabaseAway)) return true;
  return isDatabaseAway(error.cause);
}
