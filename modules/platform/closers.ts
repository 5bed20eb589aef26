/** What a process has opened, and how to close it: a stack, like `AsyncDisposableStack` of later Node versions. */

import { withDeadline } from '../../lib/deadline.ts';

export interface Closers {
  /** Adds something to be closed before what was added earlier. */
  add(name: string, close: () => Promise<unknown>, options?: CloserOptions): void;
  /**
   * Closes everything within one time limit, last added first, even if some fail. Failures go to `onError`; those that
   * lost data are thrown at the end, too. A repeated call closes what was added since.
   */
  close(): Promise<void>;
}

interface CloserOptions {
  /** Whether a failed close loses data: true only if nowhere else has it. */
  holdsData?: boolean;
  /**
   * How long it waits for work to end, in ms from the start of `close`; closing may take 3.5 s more in all. Beyond that
   * it has failed, and the rest is closed. An entry that holds data has this time, plus 3.5 s, to itself.
   */
  graceMs?: number;
}

/**
 * To record aborted work, and to close connections, whose server may be silent. With the default `DROVER_SHUTDOWN_MS` a
 * stop ends within the 30 s after which platforms kill.
 */
const CLOSE_MS = 3500;
/** For entries whose turn comes late; a responsive server needs no more. */
const LEAST_MS = 100;

/** An empty stack. */
export function createClosers(onError: (error: unknown, name: string) => void, closeMs: number = CLOSE_MS): Closers {
  const stack: ({ name: string; close: () => Promise<unknown> } & Required<CloserOptions>)[] = [];
  return {
    add: (name, close, { holdsData = false, graceMs = 0 } = {}) => void stack.push({ name, close, holdsData, graceMs }),
    async close() {
      const lost: unknown[] = [];
      const sinceMs = performance.now();
      let mostMs = closeMs;
      for (let top = stack.pop(); top; top = stack.pop()) {
        try {
          const ownMs = top.graceMs + closeMs;
          if (!top.holdsData) mostMs = Math.max(mostMs, ownMs);
          const leftMs = top.holdsData ? ownMs : Math.min(ownMs, sinceMs + mostMs - performance.now());
          await withDeadline(top.close(), Math.max(LEAST_MS, leftMs), `not closed within ${ownMs} ms`);
        } catch (error) {
          onError(error, top.name);
          if (top.holdsData) lost.push(error);
        }
      }
      if (lost.length > 0) throw new AggregateError(lost);
    },
  };
}
