/** Notices that a thread has another run. Hints only: the receiver looks at the thread anyway. */
import type { Bus } from '../../bus/bus.ts';
import type { Context } from '../governance/context.ts';
import { listenToRun } from './streams/run-notices.ts';

export interface ThreadNotices {
  /** Waits until the thread may have a run at `place`, its session was deleted, or the signal fires. */
  next: (place: number) => Promise<void>;
  /** Whether it may have a run after `place`, or its session was deleted. */
  isBeyond: (place: number) => boolean;
  close: () => void;
}

/** Wakes those who wait for the thread's run at `places`, or an earlier one. */
export function announceThread(bus: Bus, threadId: string, places: number): void {
  bus.publish({ subject: threadId, kind: 'advanced', seq: places });
}

/** Starts listening. */
export function listenToThread(
  context: Context,
  { threadId, signal }: { threadId: string; signal: AbortSignal },
): ThreadNotices {
  const notices = listenToRun(context, { about: { kind: 'thread', id: threadId }, signal });
  return {
    next: async (place) => void (await notices.next(place - 1, Number.POSITIVE_INFINITY)),
    isBeyond: notices.isBeyond,
    close: notices.close,
  };
}
