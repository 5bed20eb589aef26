import { setTimeout as sleep } from 'node:timers/promises';
import { isDatabaseAway } from '../../db/database.ts';

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 1000;

/**
 * Repeats `work` while the database is unavailable, for `forMs` at most. After the signal it is tried once more; then,
 * and when the time is up, its error is thrown.
 */
export async function retryWhileUnavailable<T>(
  work: () => Promise<T>,
  { forMs, signal }: { forMs: number; signal: AbortSignal },
): Promise<T> {
  const endsAtMs = performance.now() + forMs;
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
    const isLast = signal.aborted || performance.now() > endsAtMs;
    try {
      return await work();
    } catch (error) {
      if (!isDatabaseAway(error) || isLast) throw error;
      await sleep(pauseMs * (0.5 + Math.random()), undefined, { signal }).catch(() => undefined);
    }
  }
}
