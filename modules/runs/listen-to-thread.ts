/** That a thread has another run, as something to wait for. A hint only: whoever waits looks at the thread anyway. */
import type { Bus } from '../../bus/bus.ts';
import { listenToRun } from './streams/run-notices.ts';

export interface ThreadNotices {
  /** Waits until the thread is worth a look: it may have a run at `place`, the bus had a gap, a while has passed, or the signal fired. */
  next: (place: number) => Promise<void>;
  close: () => void;
}

/** Tells whoever waits for the thread's run at `places`, or one before it, that the thread is worth a look. */
export function announceThread(bus: Bus, threadId: string, places: number): void {
  // A thread has a channel as a run has one; ids of both are different ones.
  bus.publish({ runId: threadId, kind: 'advanced', seq: places });
}

/** Listens from now on. */
export function listenToThread(
  bus: Bus,
  { threadId, signal }: { threadId: string; signal: AbortSignal },
): ThreadNotices {
  const notices = listenToRun(bus, { runId: threadId, signal });
  return {
    next: async (place) => void (await notices.next(place - 1)),
    close: notices.close,
  };
}
