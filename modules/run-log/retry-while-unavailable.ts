import { setTimeout as sleep } from 'node:timers/promises';
import { backoffMs, jitteredMs } from '../../core/backoff.ts';
import { isPassing } from '../../db/database-errors.ts';

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 1000;

/**
 * Repeats `work` while the database is unavailable, or has rolled it back for a temporary reason, for at most `forMs`. After
 * the signal it is tried once more. Then, or when the time is up, throws its error.
 */
export async function retryWhileUnavailable<T>(
  work: () => Promise<T>,
  { forMs, signal }: { forMs: number; signal: AbortSignal },
): Promise<T> {
  const endsAtMs = performance.now() + forMs;
  for (let attempt = 1; ; attempt++) {
    const isLast = signal.aborted || performance.now() > endsAtMs;
    try {
      return await work();
    } catch (error) {
      if (isLast || !isPassing(error)) throw error;
      const pauseMs = backoffMs({ firstMs: FIRST_PAUSE_MS, mostMs: LONGEST_PAUSE_MS, attempt });
      await sleep(jitteredMs(pauseMs, 0.5, Math.random()), undefined, { signal }).catch(() => undefined);
    }
  }
}
