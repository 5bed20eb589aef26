/** What a handler of a queue is, and what it is given. */
import { UnrecoverableError, type Job } from 'bullmq';
import type { AnyJob, JobContract } from '../jobs/define-job.ts';
import type { Context } from '../modules/governance/context.ts';
import type { TenantSlots } from './tenant-slots.ts';
import type { ProcessSlots } from './process-slots.ts';

export interface Duty {
  /** Fires at the deadline of a stop: whatever runs must be given back. */
  stop: AbortSignal;
  /** The process is stopping, or the job's lock is lost: runs are handed over at their next step. */
  draining: () => boolean;
  /** The slots of the queue that is served. */
  slots?: TenantSlots;
  /** The slots of all work of that queue that the process does, where some of it comes through no queue. */
  process?: ProcessSlots;
  /** Does the work of a job that drives a child; where its end lets others begin, until they are sent. */
  joining?: <T>(childId: string, job: Job, work: () => Promise<T>) => Promise<T>;
}

/** A job that a worker holds, and the duty under which it does so. */
export interface HeldJob extends Duty {
  job: Job;
  token: string | undefined;
}

/** What the log shall say: what has become of the work, whatever became of the job, and how the job ended. */
export interface Done {
  outcome: string;
  result: unknown;
}

export interface Handler {
  contract: AnyJob;
  /** Answers a `Done`, or what the log shall say of a job whose outcome is that of its work. A payload that does not parse is an UnrecoverableError. */
  handle: (context: Context, held: HeldJob) => Promise<unknown>;
}

type Work<P> = (context: Context, payload: P, held: HeldJob) => Promise<unknown>;

/** The handler of a contract: parses the payload and does the work. */
export function defineHandler<P>(contract: JobContract<string, P, never>, work: Work<P>): Handler {
  return { contract, handle: async (context, held) => work(context, parsePayload(contract, held.job), held) };
}

/** One that does not parse is not tried again. */
function parsePayload<P>({ name, schema }: JobContract<string, P, never>, job: Job): P {
  const { data, error } = schema.safeParse(job.data);
  if (error) throw new UnrecoverableError(`the payload of ${name} does not parse: ${error.message}`);
  return data;
}

/** Whether a handler says what became of the work. */
export function isDone(answer: unknown): answer is Done {
  return typeof answer === 'object' && answer !== null && 'outcome' in answer && 'result' in answer;
}
