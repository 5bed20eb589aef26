/** Runs long work in slices; the event loop turns in between. */
import { setImmediate } from 'node:timers/promises';

/** Longest time in ms that the process is blocked. */
const SLICE_MS = 10;

/** Calls `work` with each item in order until it returns `false`; requests and timers get their turn in between. */
export async function inSlices<T>(items: Iterable<T>, work: (item: T) => boolean | void): Promise<void> {
  let startedMs = performance.now();
  for (const item of items) {
    if (work(item) === false) return;
    if (performance.now() - startedMs < SLICE_MS) continue;
    await setImmediate();
    startedMs = performance.now();
  }
}
