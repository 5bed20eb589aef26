/** How many turns a process drives at once, whether they came through the queue or were dispatched locally. */
export interface TurnSlots {
  /** Waits for a slot, first come first served; answers how to give it back. */
  enter: () => Promise<() => void>;
  /** Takes a slot that nobody waits for. */
  tryEnter: () => (() => void) | undefined;
}

export function createTurnSlots(concurrency: number): TurnSlots {
  const waiting: (() => void)[] = [];
  let free = concurrency;
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
  return {
    enter: () =>
      new Promise((resolve) => {
        const enter = () => resolve(leaveOnce());
        if (free === 0) return void waiting.push(enter);
        free -= 1;
        enter();
      }),
    tryEnter: () => {
      if (free === 0) return undefined;
      free -= 1;
      return leaveOnce();
    },
  };
}
