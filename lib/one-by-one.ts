/** Runs work with the same key one after the other, in the order in which it came; other keys run concurrently. */
export interface OneByOne {
  /** Rejects as the work does; the work after it runs all the same. */
  run<T>(key: string, work: () => Promise<T>): Promise<T>;
  /** How many pieces of work wait or run under the key. */
  countOf(key: string): number;
}

export function createOneByOne(): OneByOne {
  const lines = new Map<string, { last: Promise<unknown>; count: number }>();
  const leave = (key: string) => {
    const line = lines.get(key);
    if (line && --line.count === 0) lines.delete(key);
  };
  return {
    async run(key, work) {
      const line = lines.get(key) ?? { last: Promise.resolve(), count: 0 };
      lines.set(key, line);
      line.count += 1;
      const done = line.last.then(work);
      line.last = done.catch(() => undefined);
      try {
        return await done;
      } finally {
        leave(key);
      }
    },
    countOf: (key) => lines.get(key)?.count ?? 0,
  };
}
