/** What a process has opened, and how it is closed: a stack, as `AsyncDisposableStack` of later Node versions is one. */

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
}

/** An empty stack. */
export function createClosers(onError: (error: unknown, name: string) => void): Closers {
  const stack: { name: string; close: () => Promise<unknown>; holdsData: boolean }[] = [];
  return {
    add: (name, close, { holdsData = false } = {}) => void stack.push({ name, close, holdsData }),
    async close() {
      const lost: unknown[] = [];
      for (let top = stack.pop(); top; top = stack.pop()) {
        try {
          await top.close();
        } catch (error) {
          onError(error, top.name);
          if (top.holdsData) lost.push(error);
        }
      }
      if (lost.length > 0) throw new AggregateError(lost);
    },
  };
}
