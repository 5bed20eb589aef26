/** Long work in slices, between which the event loop turns. */
import { setImmediate } from 'node:timers/promises';

/** Longest time in ms for which nothing else of the process runs. */
const SLICE_MS = 10;

/** Does something with each item in order until it answers `false`; requests and timers have their turn in between. */
export async function inSlices<T>(items: Iterable<T>, work: (item: T) => boolean | void): Promise<void> {
  let startedMs = performance.now();
  for (const item of items) {
    if (work(item) === false) return;
    if (performance.now() - startedMs < SLICE_MS) continue;
    await setImmediate();
    startedMs = performance.now();
  }
}
