import { unavailable, type DroverError } from '../core/errors.ts';
import {
  isConflictOfTransactions,
  isDiskFull,
  isOutOfConnections,
  isUndone,
  silenceOf,
} from '../db/database-errors.ts';
import { isDatabaseAway, isDatabaseBusy } from '../db/database.ts';

/** The 503 for a failure because a backing service is away or this process is overloaded; undefined for any other. */
export function asUnavailable(thrown: unknown): DroverError | undefined {
  if (isDatabaseBusy(thrown)) {
    return unavailable('Too many requests are being served here at the time; the request may be sent again.', thrown);
  }
  if (isDiskFull(thrown)) return unavailable('The database has no room left; the request may be sent again.', thrown);
  if (isOutOfConnections(thrown))
    return unavailable('The database has no connection left; the request may be sent again.', thrown);
  if (isConflictOfTransactions(thrown))
    return unavailable(
      'Others change the same at the time, and nothing was done; the request may be sent again.',
      thrown,
    );
  if (isUndone(thrown))
    return unavailable('The database took too long, and nothing was done; the request may be sent again.', thrown);
  const silentMs = silenceOf(thrown);
  if (silentMs !== undefined)
    return unavailable(
      `The database did not answer in ${silentMs / 1000} s, on any connection; the request may be sent again.`,
      thrown,
    );
  if (isDatabaseAway(thrown)) return unavailable('The database is away; the request may be sent again.', thrown);
  if (isQueueAway(thrown)) return unavailable('The queue is away; the request may be sent again.', thrown);
  return undefined;
}

/** ioredis's own errors have no codes, only these names and messages. */
function isQueueAway(thrown: unknown): boolean {
  if (!(thrown instanceof Error)) return false;
  if (thrown.name === 'MaxRetriesPerRequestError' || thrown.name === 'ClusterAllFailedError') return true;
  return /^(Connection is closed|Stream isn't writeable|Command timed out)/.test(thrown.message);
}
