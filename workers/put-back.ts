/** Puts back jobs that are not due, or that this process cannot read. */
import { DelayedError, UnrecoverableError, type Job } from 'bullmq';
import { LIMITS } from '../core/limits.ts';

interface Held {
  job: Job;
  token: string | undefined;
}

const PUT_BACK_MS = 5000;

/** Delays the job. Always @throws DelayedError, which tells BullMQ so. */
export async function putBack({ job, token }: Held, waitMs: number): Promise<never> {
  await job.moveToDelayed(Date.now() + waitMs, token);
  throw new DelayedError();
}

/**
 * Puts the job back for about an hour, longer than a deploy takes. One that then fails no longer blocks its run:
 * reconciliation sends another, which this build can read.
 */
export async function leaveToNewerBuild(held: Held): Promise<never> {
  if (held.job.attemptsStarted > LIMITS.putBacks)
    throw new UnrecoverableError('no worker of a newer build has taken the job');
  return putBack(held, PUT_BACK_MS);
}
