import type { Job, Queue } from 'bullmq';
import { isOfEarlierRound } from './fair-order.ts';

const PAGE = 1000;
/** The most jobs moved at once; the rest follows the next time. */
const MOST_MOVED = 10_000;

/**
 * Moves jobs of an earlier round of priorities to the front, in their order: those of this round have lower numbers and
 * would go first for weeks. Returns how many it moved. `now` is in ms since the epoch.
 */
export async function renewPriorities(queue: Queue, now: number): Promise<number> {
  let old: Job[] = [];
  let end = await queue.getPrioritizedCount();
  while (end > 0 && old.length < MOST_MOVED) {
    // Ascending, from the end: the Postgres queue has no descending order of priorities.
    const page = await queue.getJobs(['prioritized'], Math.max(0, end - PAGE), end - 1, true);
    const ofEarlier = page.filter(({ priority }) => isOfEarlierRound(priority, now));
    old = [...ofEarlier, ...old];
    if (ofEarlier.length < page.length) break;
    end -= PAGE;
  }
  let moved = 0;
  for (const job of old) if (await moveToFront(job)) moved++;
  return moved;
}

/** Returns false if the job has been taken or is gone. */
async function moveToFront(job: Job): Promise<boolean> {
  try {
    await job.changePriority({ priority: 1 });
    return true;
  } catch (error) {
    if (error instanceof Error && error.message.startsWith('Missing key for job')) return false;
    throw error;
  }
}
