import type { Job, Queue } from 'bullmq';
import { isOfEarlierRound } from './fair-order.ts';

const PAGE = 1000;
/** Jobs that are moved at once; the rest is moved the next time. */
const MOST_MOVED = 10_000;

/**
 * Moves the jobs that wait since an earlier round of priorities to the front, in their order: those sent after it have
 * lower numbers and would go first for weeks. Answers how many it moved. `now` is in ms since the epoch.
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

/** False if the job was taken in the meantime, or is gone. */
async function moveToFront(job: Job): Promise<boolean> {
  try {
    await job.changePriority({ priority: 1 });
    return true;
  } catch (error) {
    if (error instanceof Error && error.message.startsWith('Missing key for job')) return false;
    throw error;
  }
}
