/** Pauses before retries: they grow, and are partly random, so that callers that failed together do not return together. */

interface Backoff {
  firstMs: number;
  mostMs?: number;
  /** Attempts that have failed, 1 or more. */
  attempt: number;
}

/** Exponential backoff: `firstMs`, doubled after each attempt, up to `mostMs`. */
export function backoffMs({ firstMs, mostMs = Infinity, attempt }: Backoff): number {
  return Math.min(firstMs * 2 ** (attempt - 1), mostMs);
}

/** Varies a pause by up to `share` in both directions. `chance` is at least 0 and below 1. */
export function jitteredMs(ms: number, share: number, chance: number): number {
  return Math.round(ms * (1 + share * (2 * chance - 1)));
}

/** Adds up to a tenth, and never shortens: the pause was requested by somebody, or is relied on. */
export function lengthenedMs(ms: number, chance: number): number {
  return Math.ceil(ms + (ms * chance) / 10);
}
