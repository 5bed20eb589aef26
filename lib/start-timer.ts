export interface Timer {
  /** Begins its time anew. */
  restart: () => void;
  clear: () => void;
}

/** Node's longest timer, for limits that something else keeps. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** A timer that is so late fires after a standstill of the process or its machine. */
const LATE_MS = 100;
const GRACE_MS = 1000;

/**
 * Calls `onEnd` when the time is up. After a standstill it first waits for up to a second, unless it is cleared: node runs
 * timers that are due before it reads its sockets, where what was waited for may have arrived in time.
 */
export function startTimer(ms: number, onEnd: () => void): Timer {
  const timeMs = Math.min(ms, LONGEST_TIMER_MS);
  let dueMs = performance.now() + timeMs;
  let grace: NodeJS.Timeout | undefined;
  const timer = setTimeout(() => {
    if (performance.now() - dueMs < LATE_MS) onEnd();
    else grace = setTimeout(onEnd, GRACE_MS);
  }, timeMs);
  return {
    restart: () => {
      clearTimeout(grace);
      dueMs = performance.now() + timeMs;
      timer.refresh();
    },
    clear: () => {
      clearTimeout(grace);
      clearTimeout(timer);
    },
  };
}
