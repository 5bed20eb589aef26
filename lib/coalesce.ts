/**
 * Runs at most one job per key. Requests that arrive before it starts share it; those that arrive while it runs share
 * the next. `work` gets all the requests that share a run.
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
