/**
 * Work that is done for all at once who ask for it while it has not begun: one piece at a time for each key, and one more for
 * all that was asked for meanwhile. `work` is given what each of them has asked for.
 */
export function coalesced<A, R>(work: (asked: readonly [A, ...A[]]) => Promise<R>): (key: string, of: A) => Promise<R> {
  const last = new Map<string, Promise<unknown>>();
  const next = new Map<string, { asked: [A, ...A[]]; done: Promise<R> }>();
  return (key, of) => {
    const waiting = next.get(key);
    if (waiting) {
      waiting.asked.push(of);
      return waiting.done;
    }
    const asked: [A, ...A[]] = [of];
    const begin = () => {
      next.delete(key);
      return work(asked);
    };
    const done = (last.get(key) ?? Promise.resolve()).then(begin, begin).finally(() => {
      if (last.get(key) === done) last.delete(key);
    });
    last.set(key, done);
    next.set(key, { asked, done });
    return done;
  };
}
