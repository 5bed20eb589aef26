/** Every unfinished run that should be driven, and every call that should be made, has a live job, or gets one. */
import type { Job } from 'bullmq';
import { LIMITS } from '../../core/limits.ts';
import { listLostCalls, listLostRuns } from '../../db/maintenance.ts';
import type { RunLogContext } from './context.ts';
import { JOB_OPTIONS } from '../../jobs/options.ts';
import { TOOL_CALLS, toolCallJobId } from '../../jobs/tool-call.ts';
import { TURNS, turnJobId } from '../../jobs/turn.ts';

/** Rows that are looked at together: each takes two round trips to the queue. */
const AT_A_TIME = 25;

const FIRST_ID = '00000000-0000-0000-0000-000000000000';

/** A delayed job is late where it has not run so long after its time. */
const LATE_MS = 60_000;

/**
 * Compares the database with the queues, for one tenant where one is named, and sends what is missing; answers how much.
 * This is what makes Redis disposable. Jobs that were delayed by another clock than the database's run when they are due.
 */
export async function reconcile(
  context: RunLogContext,
  quietMs: number,
  tenantId?: string,
): Promise<{ runs: number; calls: number }> {
  const filter = { quietMs, tenant: tenantId, limit: LIMITS.sweepRows };
  const runs = await eachPage(
    (after) => listLostRuns(context.db, { ...filter, after }),
    (run) => {
      const data = { tenantId: run.tenant_id, runId: run.id, seq: run.last_seq };
      const id = turnJobId(run.id, run.last_seq, run.fence);
      return ensureJob(context, TURNS, { id, data, isDue: ({ delay }) => run.quiet_ms > delay + LATE_MS });
    },
  );
  const calls = await eachPage(
    (after) => listLostCalls(context.db, { ...filter, after }),
    (call) => {
      const data = { tenantId: call.tenant_id, runId: call.run_id, callId: call.id };
      const id = toolCallJobId(call.id, call.attempt);
      return ensureJob(context, TOOL_CALLS, { id, data, isDue: () => true });
    },
  );
  return { runs, calls };
}

async function eachPage<R extends { id: string }>(
  page: (after: string) => Promise<R[]>,
  mend: (row: R) => Promise<boolean>,
): Promise<number> {
  let mended = 0;
  let after: string | undefined = FIRST_ID;
  while (after !== undefined) {
    const rows: R[] = await page(after);
    for (let at = 0; at < rows.length; at += AT_A_TIME) {
      const done = await Promise.all(rows.slice(at, at + AT_A_TIME).map(mend));
      mended += done.filter(Boolean).length;
    }
    after = rows.length === LIMITS.sweepRows ? rows.at(-1)?.id : undefined;
  }
  return mended;
}

/** Adds the job unless it is alive; a finished one that blocks its id is removed first. */
async function ensureJob(
  { queues, order }: RunLogContext,
  name: string,
  job: { id: string; data: { tenantId: string; runId: string }; isDue: (delayed: Job) => boolean },
): Promise<boolean> {
  const queue = queues.queue(name);
  const existing = await queue.getJob(job.id);
  if (existing) {
    const state = await existing.getState();
    if (state === 'delayed' && job.isDue(existing)) return promote(existing);
    if (state !== 'completed' && state !== 'failed' && state !== 'unknown') return false;
    await queue.remove(job.id);
  }
  await queue.add(queue.name, job.data, { ...JOB_OPTIONS, jobId: job.id, priority: order.next(job.data.tenantId) });
  return true;
}

/** Lets a delayed job run now; false where it has just begun to by itself. */
async function promote(job: Job): Promise<boolean> {
  try {
    await job.promote();
    return true;
  } catch (error) {
    if (await job.isDelayed()) throw error;
    return false;
  }
}
