import { backoffMs, jitteredMs, lengthenedMs } from '../../core/backoff.ts';
import type { ModelError } from '../../core/model.ts';

/** Who asks a model waits no longer for it in place. */
export const LONGEST_WAIT_MS = 10_000;

/** How long to wait before a model is asked again that has failed; undefined if that is too long to wait in place. */
export function pauseBeforeRetry(
  { retryAfterMs }: Pick<ModelError, 'retryAfterMs'>,
  backoff: { firstMs: number; attempt: number },
  chance = Math.random(),
): number | undefined {
  const pauseMs = retryAfterMs ?? jitteredMs(backoffMs(backoff), 0.5, chance);
  if (pauseMs > LONGEST_WAIT_MS) return undefined;
  return retryAfterMs === undefined ? pauseMs : lengthenedMs(pauseMs, chance);
}
