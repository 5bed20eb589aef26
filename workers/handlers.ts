/** One handler per job: parse, call a service, and say how the job ends. */
import { DelayedError, UnrecoverableError, type Job } from 'bullmq';
import { ZodError } from 'zod';
import { UnknownEventError } from '../core/events.ts';
import { LIMITS } from '../core/limits.ts';
import { isDatabaseAway } from '../db/database.ts';
import type { Context } from '../modules/governance/context.ts';
import { driveRun } from '../modules/runs/drive.ts';
import { CorruptCheckpointError } from '../modules/run-log/errors.ts';
import { PAYLOAD_VERSION } from '../jobs/options.ts';
import { maintenanceJob, MAINTENANCE } from '../jobs/maintenance.ts';
import { toolCallJob, TOOL_CALLS } from '../jobs/tool-call.ts';
import { turnJob, TURNS } from '../jobs/turn.ts';
import { failRun } from '../modules/runs/end-run.ts';
import { maintain } from '../modules/platform/maintain.ts';
import { runToolCall } from '../modules/tool-calls/run-tool-call.ts';
import type { TenantSlots } from './tenant-slots.ts';
import type { TurnSlots } from './turn-slots.ts';

export interface Duty {
  /** Fires at the deadline of a stop: whatever runs must be given back. */
  stop: AbortSignal;
  /** The process is stopping: runs are handed over at their next step. */
  draining: () => boolean;
  /** Of the queue that is served. */
  slots?: TenantSlots;
  /** Of all turns that the process drives. */
  turns?: TurnSlots;
}

export type Handler = (context: Context, job: Job, duty: Duty & { token: string | undefined }) => Promise<unknown>;

const PUT_BACK_MS = 5000;

export const HANDLERS: Record<string, Handler> = {
  [TURNS]: async (context, job, duty) => {
    const payload = turnJob.parse(job.data);
    const leave = await duty.turns?.enter();
    try {
      return await driveRun(context, payload, duty);
    } catch (error) {
      // A newer build has written what this one cannot read: the run is left to the newer one.
      if (error instanceof UnknownEventError) return leaveToNewerBuild(job, duty.token);
      if (error instanceof CorruptCheckpointError) {
        await failRun(context, payload, { code: error.name, message: error.message });
        throw new UnrecoverableError(error.message);
      }
      if (isLastAttempt(job) && !isDatabaseAway(error)) {
        const message = 'Drover could not drive the run; the log of the worker says why.';
        await failRun(context, payload, { code: 'internal', message });
      }
      throw error;
    } finally {
      leave?.();
    }
  },
  [TOOL_CALLS]: async (context, job, duty) => {
    const end = await runToolCall(context, toolCallJob.parse(job.data), duty.stop);
    return end.kind === 'later' ? putBack(job, duty.token, end.waitMs) : end.kind;
  },
  [MAINTENANCE]: (context, job) => maintain(context, maintenanceJob.parse(job.data).act),
};

/** Runs a job's handler, with its log line and its metrics. A payload that does not parse is not tried again. */
export async function handle(context: Context, job: Job, duty: Duty & { token: string | undefined }): Promise<unknown> {
  const startedMs = performance.now();
  const { runId, turnId, tenantId, traceparent } = job.data as Partial<
    Record<'runId' | 'turnId' | 'tenantId' | 'traceparent', string>
  >;
  const about = {
    queue: job.queueName,
    job: job.id,
    run: runId,
    turn: turnId,
    tenant: tenantId,
    trace_id: traceparent?.split('-')[1],
  };
  const end = (outcome: JobOutcome) => ({ ...about, ...endOf(context, { queue: job.queueName, outcome, startedMs }) });
  try {
    const handler = HANDLERS[job.queueName];
    if (!handler || isOfNewerBuild(job)) return await leaveToNewerBuild(job, duty.token);
    const result = await inSlot(context, { job, duty, tenantId }, () => handler(context, job, duty));
    const line = { ...end('ok'), result };
    if (job.queueName === MAINTENANCE) context.log.debug(line, 'job');
    else context.log.info(line, 'job');
    return result;
  } catch (error) {
    if (error instanceof DelayedError) {
      context.log.debug(end('delayed'), 'job');
      throw error;
    }
    context.log.error({ ...end('failed'), attempt: job.attemptsMade + 1, err: error }, 'job');
    if (error instanceof ZodError) throw new UnrecoverableError(`the payload of ${job.queueName} does not parse`);
    throw error;
  }
}

type JobOutcome = 'ok' | 'failed' | 'delayed';

/** Counts a job that has ended, and answers what its line in the log says of that. */
export function endOf(context: Context, ended: { queue: string; outcome: JobOutcome; startedMs: number }) {
  const { queue, outcome, startedMs } = ended;
  const seconds = (performance.now() - startedMs) / 1000;
  context.metrics.jobSeconds.observe({ queue, outcome }, seconds);
  return { outcome, ms: Math.round(seconds * 1000) };
}

/** A job that this build does not know is left to the one that has sent it. */
function isOfNewerBuild(job: Job): boolean {
  const { version } = job.data as { version?: unknown };
  if (typeof version === 'number' && version > PAYLOAD_VERSION) return true;
  return job.name !== job.queueName && job.queueName !== MAINTENANCE;
}

/** Does the work where its tenant has a slot left, and tells what it took; else the job waits while others run. */
async function inSlot<T>(
  context: Context,
  { job, duty, tenantId }: { job: Job; duty: Duty & { token: string | undefined }; tenantId: string | undefined },
  work: () => Promise<T>,
): Promise<T> {
  const { slots } = duty;
  if (!slots || tenantId === undefined) return work();
  const giveBack = slots.take(tenantId);
  if (!giveBack) return putBack(job, duty.token, slots.pauseMs(tenantId));
  const startedMs = performance.now();
  try {
    return await work();
  } finally {
    giveBack();
    context.order.spent(tenantId, performance.now() - startedMs);
  }
}

/**
 * Puts it back for an hour or so, which is longer than a deploy takes. A job that fails then keeps its run no longer:
 * reconciliation sends another one, which this build can read.
 */
async function leaveToNewerBuild(job: Job, token: string | undefined): Promise<never> {
  if (job.attemptsStarted > LIMITS.putBacks)
    throw new UnrecoverableError('no worker of a newer build has taken the job');
  return putBack(job, token, PUT_BACK_MS);
}

async function putBack(job: Job, token: string | undefined, waitMs: number): Promise<never> {
  await job.moveToDelayed(Date.now() + waitMs, token);
  throw new DelayedError();
}

function isLastAttempt(job: Job): boolean {
  return job.attemptsMade + 1 >= (job.opts.attempts ?? 1);
}
