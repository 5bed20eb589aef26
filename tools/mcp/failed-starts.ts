import { LRUCache } from 'lru-cache';
import { backoffMs } from '../../core/backoff.ts';

/** Avoids servers that fail repeatedly, for longer each time. */
interface FailedStarts {
  /** Throws `ServerBackOffError` while the server is avoided. */
  check(key: string): void;
  note(key: string, why: string): void;
  forget(key: string): void;
}

/** A server that keeps failing, and the time until its next try. */
export class ServerBackOffError extends Error {
  readonly waitMs: number;

  constructor(waitMs: number, why: string) {
    super(`it keeps failing and is tried again in ${Math.ceil(waitMs / 1000)} s: ${why}`);
    this.name = 'ServerBackOffError';
    this.waitMs = waitMs;
  }
}

const LONGEST_MS = 60_000;
const MOST_KEPT = 1000;

/** After the second failure in a row a server is avoided for `firstMs`, doubled with each further one, up to a minute. */
export function createFailedStarts(firstMs: number): FailedStarts {
  const failures = new LRUCache<string, { count: number; untilMs: number; why: string }>({ max: MOST_KEPT });
  return {
    check(key) {
      const failed = failures.get(key);
      const backOffMs = Math.ceil((failed?.untilMs ?? 0) - performance.now());
      if (failed && backOffMs > 0) throw new ServerBackOffError(backOffMs, failed.why);
    },
    note(key, why) {
      const count = (failures.get(key)?.count ?? 0) + 1;
      const backOffMs = count < 2 ? 0 : backoffMs({ firstMs, mostMs: LONGEST_MS, attempt: count - 1 });
      failures.set(key, { count, untilMs: performance.now() + backOffMs, why });
    },
    forget: (key) => void failures.delete(key),
  };
}
