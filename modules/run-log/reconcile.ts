/** Sends the jobs that are missing: for every unfinished run that should be driven, and every call that should be made. */
import type { Job } from 'bullmq';
import { LIMITS } from '../../core/limits.ts';
import { CONTRACTS, type QueueName } from '../../jobs/contracts.ts';
import type { LostJob } from '../../jobs/define-job.ts';
import { JOB_OPTIONS } from '../../jobs/options.ts';
import type { RunLogContext } from './context.ts';

/** Rows that are looked at together: each takes two round trips to the queue. */
const AT_A_TIME = 25;

const FIRST_ID = '00000000-0000-0000-0000-000000000000';

/** How much was missing, by queue. */
export type Reconciled = Partial<Record<QueueName, number>>;

/**
 * Compares the database with the queues, for one tenant where one is named, and sends what is missing; answers how much.
 * This is what makes Redis disposable. Jobs that were delayed by another clock than the database's run when they are due.
 */
export async function reconcile(context: RunLogContext, quietMs: number, tenantId?: string): Promise<Reconciled> {
  const filter = { quietMs, tenantId, limit: LIMITS.sweepRows };
  const sent: Reconciled = {};
  for (const { name, listLost } of CONTRACTS) {
    if (!listLost) continue;
    sent[name] = await eachPage(
      (after) => listLost(context.db, { ...filter, after }),
      (lost) => ensureJob(context, name, lost),
    );
  }
  return sent;
}

async function eachPage(
  page: (after: string) => Promise<LostJob[]>,
  mend: (lost: LostJob) => Promise<boolean>,
): Promise<number> {
  let mended = 0;
  let after: string | undefined = FIRST_ID;
  while (after !== undefined) {
    const rows: LostJob[] = await page(after);
    for (let at = 0; at < rows.length; at += AT_A_TIME) {
      const done = await Promise.all(rows.slice(at, at + AT_A_TIME).map(mend));
      mended += done.filter(Boolean).length;
    }
    after = rows.length === LIMITS.sweepRows ? rows.at(-1)?.rowId : undefined;
  }
  return mended;
}

/** Adds the job unless it is alive; a finished one that blocks its id is removed first. */
async function ensureJob({ queues, order }: RunLogContext, name: string, job: LostJob): Promise<boolean> {
  const queue = queues.queue(name);
  const existing = await queue.getJob(job.id);
  if (existing) {
    const state = await existing.getState();
    if (state === 'delayed' && job.isDue(existing.delay)) return promote(existing);
    if (state !== 'completed' && state !== 'failed' && state !== 'unknown') return false;
    await queue.remove(job.id);
  }
  const priority = order.next(job.payload.tenantId);
  await queue.add(queue.name, job.payload, { ...JOB_OPTIONS, jobId: job.id, priority });
  return true;
}

/** Lets a delayed job run now; false if it has just begun to by itself. */
async function promote(job: Job): Promise<boolean> {
  try {
    await job.promote();
    return true;
  } catch (error) {
    if (await job.isDelayed()) throw error;
    return false;
  }
}
