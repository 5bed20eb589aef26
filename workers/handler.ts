/** Defines handlers of queues and what they are given. */
import { UnrecoverableError, type Job } from 'bullmq';
import type { AnyJob, JobContract } from '../jobs/define-job.ts';
import type { Context } from '../modules/governance/context.ts';
import type { TenantSlots } from './tenant-slots.ts';
import type { ProcessSlots } from './process-slots.ts';

export interface Duty {
  /** Fires at the deadline of a stop: running work must be given back. */
  stop: AbortSignal;
  /** Whether the process is stopping or the job's lock is lost: runs are yielded at their next step. */
  draining: () => boolean;
  /** The tenants' slots of this queue. */
  slots?: TenantSlots;
  /** The slots of all work of this queue in the process, if some of it bypasses the queue. */
  process?: ProcessSlots;
  /** Does the work of a job that drives a child; if that lets others begin, resolves once they are sent. */
  joining?: <T>(childId: string, job: Job, work: () => Promise<T>) => Promise<T>;
}

/** A job that a worker holds, with its duty. */
export interface HeldJob extends Duty {
  job: Job;
  token: string | undefined;
}

/** For the log: what became of the work, and how the job ended. */
export interface Done {
  outcome: string;
  result: unknown;
  /** The trace of the work, if the job does not name it: jobs after a wait do not. */
  traceparent?: string | undefined;
}

export interface Handler {
  contract: AnyJob;
  /** Returns a `Done`, or, if the job's outcome is the work's, what to log. Throws an UnrecoverableError for a bad payload. */
  handle: (context: Context, held: HeldJob) => Promise<unknown>;
  /** What is done once such a job is done, and its id free again. */
  after?: ((context: Context, job: Job) => Promise<unknown>) | undefined;
}

type Work<P> = (context: Context, payload: P, held: HeldJob) => Promise<unknown>;

/** The handler of a contract: parses the payload and does the work. */
export function defineHandler<P>(
  contract: JobContract<string, P, never>,
  work: Work<P>,
  after?: (context: Context, payload: P) => Promise<unknown>,
): Handler {
  return {
    contract,
    handle: async (context, held) => work(context, parsePayload(contract, held.job), held),
    after: after && (async (context, job) => after(context, parsePayload(contract, job))),
  };
}

/** Throws an UnrecoverableError, so that the job is not retried. */
function parsePayload<P>({ name, schema }: JobContract<string, P, never>, job: Job): P {
  const { data, error } = schema.safeParse(job.data);
  if (error) throw new UnrecoverableError(`the payload of ${name} does not parse: ${error.message}`);
  return data;
}

/** Whether the handler's answer tells the work's outcome apart. */
export function isDone(answer: unknown): answer is Done {
  return typeof answer === 'object' && answer !== null && 'outcome' in answer && 'result' in answer;
}
