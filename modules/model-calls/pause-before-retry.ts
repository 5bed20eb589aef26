import { backoffMs, jitteredMs, lengthenedMs } from '../../core/backoff.ts';
import type { ModelError } from '../../core/model.ts';

/** The longest wait within a call. */
export const LONGEST_WAIT_MS = 10_000;

/** Pause before a failed model is asked again; undefined if it is too long to wait within the call. */
export function pauseBeforeRetry(
  { retryAfterMs }: Pick<ModelError, 'retryAfterMs'>,
  backoff: { firstMs: number; attempt: number },
  chance = Math.random(),
): number | undefined {
  const pauseMs = retryAfterMs ?? jitteredMs(backoffMs(backoff), 0.5, chance);
  if (pauseMs > LONGEST_WAIT_MS) return undefined;
  return retryAfterMs === undefined ? pauseMs : lengthenedMs(pauseMs, chance);
}
