/** Drives the run that a job names, and fails a run that cannot be driven after all attempts. */
import { UnrecoverableError, type Job } from 'bullmq';
import { DroverError } from '../core/errors.ts';
import { FileStoreError } from '../lib/file-store.ts';
import { isPassing } from '../db/database-errors.ts';
import type { TurnJob } from '../jobs/turns.ts';
import type { Context } from '../modules/governance/context.ts';
import { CorruptCheckpointError } from '../modules/run-log/errors.ts';
import { driveRun } from '../modules/runs/drive.ts';
import { failRun } from '../modules/runs/end-run.ts';
import type { Done, HeldJob } from './handler.ts';
import { inProcessSlot } from './in-process-slot.ts';

/** Runs are never deleted: a missing one was never written, or the job's sender uses another database. */
const MISSING =
  'a job is for a run that is not in this database: its request failed before the run was written, or another installation uses the same Redis (each needs its own DROVER_QUEUE_PREFIX)';

/** Waits for a slot of the process first; returns what became of the run. */
export function driveJob(context: Context, payload: TurnJob, held: HeldJob): Promise<Done> {
  return inProcessSlot(held, () => drive(context, payload, held));
}

async function drive(context: Context, payload: TurnJob, held: HeldJob): Promise<Done> {
  try {
    const driven = await driveRun(context, payload, held);
    if (driven.result === 'missing') context.log.warn({ run: payload.runId, tenant: payload.tenantId }, MISSING);
    return driven;
  } catch (error) {
    if (error instanceof CorruptCheckpointError) {
      await failRun(context, payload, { code: error.name, message: error.message });
      throw new UnrecoverableError(error.message);
    }
    if (isLastAttempt(held.job) && !isAway(error)) {
      const message = 'Drover could not drive the run; the log of the worker says why.';
      await failRun(context, payload, { code: 'internal', message });
    }
    throw error;
  }
}

/** Whether the database or the file store is away or held up: the run is sent again until that is over. */
function isAway(error: unknown): boolean {
  if (isPassing(error)) return true;
  const isLasting = error instanceof DroverError && error.cause instanceof FileStoreError && error.cause.isLasting;
  return error instanceof DroverError && error.code === 'unavailable' && !isLasting;
}

function isLastAttempt(job: Job): boolean {
  return job.attemptsMade + 1 >= (job.opts.attempts ?? 1);
}
