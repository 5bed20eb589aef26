/** What a process has opened, and how it is closed: a stack, as `AsyncDisposableStack` of later Node versions is one. */

import { withDeadline } from '../../lib/deadline.ts';

export interface Closers {
  /** To be closed before what was added earlier. */
  add(name: string, close: () => Promise<unknown>, options?: CloserOptions): void;
  /**
   * Closes everything, the last first, each whatever the others do. What fails is told to `onError`; only where something
   * was lost by it, it is thrown at the end. Again closes what was added since.
   */
  close(): Promise<void>;
}

interface CloserOptions {
  /** Whether something is lost where the closing fails: true only of what holds data that no other place has. */
  holdsData?: boolean;
  /** How long it waits for work to end, in ms; closing may take 15 s more. What takes longer has failed, and the rest is closed. */
  graceMs?: number;
}

/** A connection whose server is silent, or that somebody still uses, keeps no process. */
const CLOSE_MS = 15_000;

/** An empty stack. */
export function createClosers(onError: (error: unknown, name: string) => void, closeMs: number = CLOSE_MS): Closers {
  const stack: ({ name: string; close: () => Promise<unknown> } & Required<CloserOptions>)[] = [];
  return {
    add: (name, close, { holdsData = false, graceMs = 0 } = {}) => void stack.push({ name, close, holdsData, graceMs }),
    async close() {
      const lost: unknown[] = [];
      for (let top = stack.pop(); top; top = stack.pop()) {
        try {
          const withinMs = top.graceMs + closeMs;
          await withDeadline(top.close(), withinMs, `not closed within ${withinMs} ms`);
        } catch (error) {
          onError(error, top.name);
          if (top.holdsData) lost.push(error);
        }
      }
      if (lost.length > 0) throw new AggregateError(lost);
    },
  };
}
