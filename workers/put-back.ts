/** Puts back jobs that are not due, or that this process cannot read, and gives up those that nobody can. */
import { DelayedError, UnrecoverableError, type Job } from 'bullmq';
import type { Logger } from 'pino';
import { LIMITS } from '../core/limits.ts';
import { onceIn } from '../lib/once-in.ts';

interface Held {
  job: Job;
  token: string | undefined;
}

const PUT_BACK_MS = 5000;

/** While a deploy lasts, every job of the newer build comes again and again. */
const TELL_EVERY_MS = 30_000;
const tellsNewer = onceIn(TELL_EVERY_MS);

/** Delays the job. Always @throws DelayedError, which tells BullMQ so. */
export async function putBack({ job, token }: Held, waitMs: number): Promise<never> {
  await job.moveToDelayed(Date.now() + waitMs, token);
  throw new DelayedError();
}

/**
 * Puts the job back for about an hour, longer than a deploy takes. One that then fails no longer blocks its run:
 * reconciliation sends another, which this build can read.
 */
export async function leaveToNewerBuild(held: Held, log: Logger): Promise<never> {
  const { id, name, queueName } = held.job;
  if (tellsNewer(log))
    log.warn(
      { queue: queueName, job: id, name },
      'a job of a newer build is put back: it waits for a worker of that build',
    );
  if (held.job.attemptsStarted > LIMITS.putBacks)
    throw new UnrecoverableError('no worker of a newer build has taken the job');
  return putBack(held, PUT_BACK_MS);
}

/** The queue has an id and nothing of what was sent under it. */
export class DamagedJobError extends UnrecoverableError {
  constructor() {
    super(
      'the queue has lost what is in a job, which is removed and sent anew: Redis must not evict (maxmemory-policy noeviction)',
    );
  }
}

/**
 * Throws for a job of which the id alone is left, as where Redis has evicted the rest: every sender names its jobs. It is
 * removed as it fails, so that its id is free for what sends it again.
 */
export function refuseDamaged(job: Job): void {
  const { name } = job as { name?: string };
  if (name !== undefined) return;
  job.opts.removeOnFail = true;
  throw new DamagedJobError();
}
