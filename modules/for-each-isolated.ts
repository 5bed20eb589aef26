import type { Logger } from 'pino';
import { isDatabaseAway } from '../db/database.ts';

/**
 * Works on rows of many tenants, a few at a time: a failure is logged and does not keep the others
 * waiting. Answers what came of the others. Throws where the database is away, which all of them need.
 */
export async function forEachIsolated<R extends object, T>(
  log: Logger,
  { rows, atATime = 1 }: { rows: readonly R[]; atATime?: number },
  work: (row: R) => Promise<T>,
): Promise<T[]> {
  const done: T[] = [];
  for (let at = 0; at < rows.length; at += atATime) {
    const some = rows.slice(at, at + atATime);
    const results = await Promise.allSettled(some.map(work));
    for (const [index, result] of results.entries()) {
      if (result.status === 'fulfilled') done.push(result.value);
      else if (isDatabaseAway(result.reason)) throw result.reason;
      else
        log.error({ err: result.reason as unknown, row: some[index] }, 'maintenance could not do its work for a row');
    }
  }
  return done;
}
