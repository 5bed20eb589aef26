/** Pauses before another attempt: longer each time, and left to chance in part, so that who failed together does not come back together. */

interface Backoff {
  firstMs: number;
  mostMs?: number;
  /** Attempts that have failed, 1 or more. */
  attempt: number;
}

/** Twice as long after each attempt, up to `mostMs`. */
export function backoffMs({ firstMs, mostMs = Infinity, attempt }: Backoff): number {
  return Math.min(firstMs * 2 ** (attempt - 1), mostMs);
}

/** Give or take `share` of a pause. `chance` is at least 0 and below 1. */
export function jitteredMs(ms: number, share: number, chance: number): number {
  return Math.round(ms * (1 + share * (2 * chance - 1)));
}

/** A pause that somebody has asked for, or counts on, is never shortened: up to a tenth is added. */
export function lengthenedMs(ms: number, chance: number): number {
  return Math.ceil(ms + (ms * chance) / 10);
}
