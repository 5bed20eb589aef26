import type { Logger } from 'pino';
import { isDatabaseAway } from '../db/database.ts';

interface Round<R> {
  rows: readonly R[];
  atATime?: number;
  /** No row is begun later than this; the others are left to the next round. */
  withinMs?: number;
}

/**
 * Works on rows of many tenants, a few at a time: a failure is logged and does not keep the others
 * waiting. Answers what came of the others. Throws where the database is away, which all of them need.
 */
export async function forEachIsolated<R extends object, T>(
  log: Logger,
  { rows, atATime = 1, withinMs = Number.POSITIVE_INFINITY }: Round<R>,
  work: (row: R) => Promise<T>,
): Promise<T[]> {
  const done: T[] = [];
  const endsAtMs = performance.now() + withinMs;
  for (let at = 0; at < rows.length && performance.now() < endsAtMs; at += atATime) {
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

/** A round ends before the next one of its act is due. */
const TENANTS_AT_A_TIME = 4;
const ROUND_MS = 4000;

/**
 * Works on tenants that have something to do, for a bounded time. They come with those that have waited longest first, or in
 * an order that is another one each time, so that none of them waits without end, however many there are.
 */
export function forEachTenant<T>(
  log: Logger,
  tenants: readonly string[],
  work: (tenantId: string) => Promise<T>,
): Promise<T[]> {
  const rows = tenants.map((tenant) => ({ tenant }));
  return forEachIsolated(log, { rows, atATime: TENANTS_AT_A_TIME, withinMs: ROUND_MS }, ({ tenant }) => work(tenant));
}
