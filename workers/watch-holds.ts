/** Whether an operator holds a queue: paused, or limited for all processes together. Then nothing of it bypasses the queue. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Queue } from 'bullmq';
import { LIMITS } from '../core/limits.ts';
import type { Context } from '../modules/governance/context.ts';

export interface HoldWatch {
  isHeld: () => boolean;
  stop: () => Promise<void>;
}

/**
 * Looks at a queue's settings each second, and at once when this process changes them. Resolves after the first look. While
 * the store is away, what was seen last counts; a queue that was never seen is not held.
 */
export async function watchHolds(queue: Queue, log: Context['log']): Promise<HoldWatch> {
  const stopped = new AbortController();
  let held = false;
  const look = async (): Promise<void> => {
    try {
      const { paused, concurrency, max } = await queue.getMeta();
      held = paused === true || concurrency !== undefined || max !== undefined;
    } catch (error) {
      log.debug({ err: error, queue: queue.name }, 'whether the queue is held cannot be seen');
    }
  };
  const pause = () => void (held = true);
  const resume = () => void look();
  queue.on('paused', pause).on('resumed', resume);
  await look();
  const watching = keepLooking(look, stopped.signal);
  return {
    isHeld: () => held,
    async stop() {
      stopped.abort();
      queue.off('paused', pause).off('resumed', resume);
      await watching;
    },
  };
}

async function keepLooking(look: () => Promise<void>, stopped: AbortSignal): Promise<void> {
  for (;;) {
    await delay(LIMITS.queueLookMs, undefined, { signal: stopped }).catch(() => undefined);
    if (stopped.aborted) return;
    await look();
  }
}
