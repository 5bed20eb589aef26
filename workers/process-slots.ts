/** Limits how much of a queue's work a process does at once, from the queue or dispatched locally. */
export interface ProcessSlots {
  /**
   * Waits at most `withinMs` for a slot, first come first served; returns how to give it back. Undefined if none came
   * free: then nothing is dispatched locally for a while, so that the queue gets its turn.
   */
  enter: (withinMs: number) => Promise<(() => void) | undefined>;
  /** Takes a free slot that no job waits for. */
  tryEnter: () => (() => void) | undefined;
}

/** How long free slots are kept for the queue after a job found none, in ms: that job comes again sooner. */
const KEPT_MS = 1000;

export function createProcessSlots(concurrency: number): ProcessSlots {
  const waiting: (() => void)[] = [];
  let free = concurrency;
  let keptUntilMs = 0;
  const leaveOnce = () => {
    let left = false;
    return () => {
      if (left) return;
      left = true;
      const next = waiting.shift();
      if (next) next();
      else free += 1;
    };
  };
  const wait = (withinMs: number) =>
    new Promise<(() => void) | undefined>((resolve) => {
      const enter = () => {
        clearTimeout(timer);
        resolve(leaveOnce());
      };
      const timer = setTimeout(() => {
        waiting.splice(waiting.indexOf(enter), 1);
        keptUntilMs = performance.now() + KEPT_MS;
        resolve(undefined);
      }, withinMs);
      waiting.push(enter);
    });
  return {
    enter: async (withinMs) => {
      if (free === 0) return wait(withinMs);
      free -= 1;
      return leaveOnce();
    },
    tryEnter: () => {
      if (free === 0 || performance.now() < keptUntilMs) return undefined;
      free -= 1;
      return leaveOnce();
    },
  };
}
