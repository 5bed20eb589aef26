/**
 * Queued calls made by this process usually end soon. Their driver holds the run for a moment and commits their results with
 * the next step, like those of its own calls; a slower call is left to itself.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { LIMITS } from '../../../core/limits.ts';
import { linkSignals } from '../../../lib/link-signals.ts';
import type { MadeAttempt } from '../../tool-calls/attempt.ts';
import { finish, serialize } from './commit-attempts.ts';
import type { AttachedCalls, Drive } from './drive-state.ts';

interface Attachment extends AttachedCalls {
  /** Waits for a moment at most until all have ended; after that the driver may leave the run. */
  wait: () => Promise<void>;
}

/** Attaches to the driver the calls that the next commit begins. */
export function attachCalls(drive: Drive): Attachment {
  const inTurn = serialize();
  const over = latch();
  const gone = latch();
  const open = new Set<string>();
  let isHeld = true;
  const letGo = () => {
    isHeld = false;
    over.resolve();
  };
  const settle = async (made: MadeAttempt) => {
    const { claim, settlement, latencyMs, facts } = made;
    if (settlement.status === 'retry') throw new Error('a call that is to be made again is not settled');
    const call = { id: claim.call.id, mode: 'queued' as const };
    await inTurn(() => finish(drive, { call, attempt: claim.attempt, settlement, latencyMs, facts }));
  };
  return {
    open,
    async offer(made) {
      // A call to be retried waits in the queue, and its run without a driver.
      if (made.settlement.status === 'retry') letGo();
      if (isHeld) {
        try {
          await settle(made);
          return true;
        } catch (error) {
          // This driver has lost the run, and is told so; the call's result is not lost.
          over.reject(error);
        }
      }
      await gone.promise;
      return false;
    },
    ended(id) {
      open.delete(id);
      if (open.size === 0) over.resolve();
    },
    left() {
      letGo();
      gone.resolve();
    },
    async wait() {
      const moment = new AbortController();
      const { signal, release } = linkSignals(drive.signal, moment.signal);
      try {
        await Promise.race([over.promise, sleep(LIMITS.attachedMs, undefined, { signal })]);
      } finally {
        moment.abort();
        release();
        isHeld = false;
        // Waits for commits that are under way.
        await inTurn(() => Promise.resolve());
      }
    },
  };
}

/** A promise settled from outside; its rejection may go unhandled. */
function latch(): { promise: Promise<void>; resolve: () => void; reject: (reason: unknown) => void } {
  let settle: Pick<ReturnType<typeof latch>, 'resolve' | 'reject'> | undefined;
  const promise = new Promise<void>((resolve, reject) => {
    settle = { resolve, reject };
  });
  promise.catch(() => undefined);
  return { promise, resolve: () => settle?.resolve(), reject: (reason) => settle?.reject(reason) };
}
