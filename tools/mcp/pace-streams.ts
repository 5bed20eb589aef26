/** Pauses before streams of an MCP server that are opened one upon the other. */
import { setTimeout as sleep } from 'node:timers/promises';
import { backoffMs, jitteredMs } from '../../core/backoff.ts';

/** Streams opened at this distance need no pause: it is the server's own, or that of the SDK. */
const APART_MS = 1000;
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 10_000;

interface Pace {
  openedAtMs: number;
  /** Streams in a row that came sooner after the one before. */
  inHaste: number;
}

/**
 * Returns what resolves when the next stream `of` something may be opened: at once, or, where a server ends each and names no
 * pause (`retry: 0`), after one that doubles. Rejects if the signal fires before.
 */
export function createStreamPacer(): (of: object, signal: AbortSignal) => Promise<void> {
  const paces = new WeakMap<object, Pace>();
  return async (of, signal) => {
    const { openedAtMs, inHaste } = paces.get(of) ?? { openedAtMs: -APART_MS, inHaste: 0 };
    const isApart = performance.now() - openedAtMs >= APART_MS;
    const pace: Pace = { openedAtMs, inHaste: isApart ? 0 : inHaste + 1 };
    paces.set(of, pace);
    if (!isApart) {
      const pauseMs = backoffMs({ firstMs: FIRST_PAUSE_MS, mostMs: LONGEST_PAUSE_MS, attempt: pace.inHaste });
      await sleep(jitteredMs(pauseMs, 0.5, Math.random()), undefined, { signal });
    }
    pace.openedAtMs = performance.now();
  };
}
