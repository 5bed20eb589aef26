/** What a process has opened, and how it is closed: a stack, as `AsyncDisposableStack` of later Node versions is one. */

import { withDeadline } from '../../lib/deadline.ts';

export interface Closers {
  /** To be closed before what was added earlier. */
  add(name: string, close: () => Promise<unknown>, options?: CloserOptions): void;
  /**
   * Closes everything, the last first, each whatever the others do, all within one time. What fails is told to `onError`; only
   * where something was lost by it, it is thrown at the end. Again closes what was added since.
   */
  close(): Promise<void>;
}

interface CloserOptions {
  /** Whether something is lost where the closing fails: true only of what holds data that no other place has. */
  holdsData?: boolean;
  /**
   * How long it waits for work to end, in ms, counted from when the closing of everything began; all of it may take 3.5 s more. What takes
   * longer has failed, and the rest is closed. What holds data has this time, and 3.5 s, for itself.
   */
  graceMs?: number;
}

/**
 * To write down what was broken off, and for connections, whose server may be silent: with the default of `DROVER_SHUTDOWN_MS` a stop
 * ends before the 30 s after which platforms kill.
 */
const CLOSE_MS = 3500;
/** For what comes when the time is over: what is there takes no longer. */
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
