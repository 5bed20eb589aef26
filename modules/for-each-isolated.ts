import type { Logger } from 'pino';
import { isDatabaseAway } from '../db/database.ts';

interface Round<R> {
  rows: readonly R[];
  atATime?: number;
  /** Rows not begun by then are left to the next round. */
  withinMs?: number;
}

/**
 * Works on rows of many tenants, a few at a time. A failure is logged and does not stop the others; their results are
 * returned. Throws if the database is away, which all rows need.
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

const TENANTS_AT_A_TIME = 4;
/** Ends a round before the act's next one is due. */
const ROUND_MS = 4000;

/** Repeats a part of an act until no more is to do, or its round is over: the next one does the rest. Returns how much was done. */
export async function whileRoundLasts(
  part: () => Promise<{ done: number; hasMore: boolean }>,
  roundMs: number = ROUND_MS,
): Promise<number> {
  const endsAtMs = performance.now() + roundMs;
  let total = 0;
  for (;;) {
    const { done, hasMore } = await part();
    total += done;
    if (!hasMore || performance.now() > endsAtMs) return total;
  }
}

/**
 * Works on tenants for a bounded time. Their order, longest waiting first or different each time, keeps any from
 * waiting for ever, however many there are.
 */
export function forEachTenant<T>(
  log: Logger,
  tenants: readonly string[],
  work: (tenantId: string) => Promise<T>,
): Promise<T[]> {
  const rows = tenants.map((tenant) => ({ tenant }));
  return forEachIsolated(log, { rows, atATime: TENANTS_AT_A_TIME, withinMs: ROUND_MS }, ({ tenant }) => work(tenant));
}
