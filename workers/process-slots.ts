/** How much of a queue's work a process does at once, whether it came through the queue or was dispatched locally. */
export interface ProcessSlots {
  /**
   * Waits for a slot so many ms at most, first come first served; answers how to give it back. Undefined if there was none:
   * for a while none is dispatched locally then, so that the queue has its turn.
   */
  enter: (withinMs: number) => Promise<(() => void) | undefined>;
  /** Takes a slot that nobody waits for. */
  tryEnter: () => (() => void) | undefined;
}

/** How long a slot is kept for the queue after a job has found none, in ms: it comes again before that. */
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
