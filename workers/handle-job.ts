/** Surrounds every job's handler with a slot, a log line, metrics, and an end that BullMQ understands. */
import { DelayedError } from 'bullmq';
import { PAYLOAD_VERSION } from '../jobs/options.ts';
import type { Context } from '../modules/governance/context.ts';
import { isDone, type Done, type Handler, type HeldJob } from './handler.ts';
import { leaveToNewerBuild, putBack, refuseDamaged } from './put-back.ts';
import { tellFailure } from './tell-failure.ts';

/** How long a job that arrives while the process stops is put back, in ms, so that another process takes it. */
const STOPPING_PAUSE_MS = 100;

/** Runs a job's handler, with log line and metrics. A stopping queue may still bring a job: it is put back unchanged. */
export async function handleJob(context: Context, handler: Handler, held: HeldJob): Promise<unknown> {
  const startedMs = performance.now();
  const { job } = held;
  const { name: queue, isRoutine } = handler.contract;
  const { runId, turnId, tenantId, traceparent } = job.data as Partial<
    Record<'runId' | 'turnId' | 'tenantId' | 'traceparent', string>
  >;
  const about = { queue, job: job.id, run: runId, turn: turnId, tenant: tenantId, trace_id: traceIdOf(traceparent) };
  const end = (outcome: JobOutcome) => ({ ...about, ...endOf(context, { queue, outcome, startedMs }) });
  try {
    if (held.draining()) return await putBack(held, STOPPING_PAUSE_MS);
    refuseDamaged(job);
    if (isOfNewerBuild(handler, held)) return await leaveToNewerBuild(held, context.log);
    const answer = await inSlot(context, { held, tenantId, isRoutine }, () => handler.handle(context, held));
    const done: Done = isDone(answer) ? answer : { outcome: 'ok', result: answer };
    const { outcome, result } = done;
    const trace_id = traceIdOf(done.traceparent ?? traceparent);
    context.log[isRoutine ? 'debug' : 'info']({ ...end('ok'), trace_id, outcome, result }, 'job');
    return result;
  } catch (error) {
    if (error instanceof DelayedError) {
      context.log.debug(end('delayed'), 'job');
      throw error;
    }
    tellFailure(context.log, error, { ...end('failed'), attempt: job.attemptsMade + 1 });
    throw error;
  }
}

/** The trace in a `traceparent`, as log lines name it. */
export function traceIdOf(traceparent: string | undefined): string | undefined {
  return traceparent?.split('-')[1];
}

type JobOutcome = 'ok' | 'failed' | 'delayed';

/** Counts an ended job, and returns the fields of its log line. */
export function endOf(context: Context, ended: { queue: string; outcome: JobOutcome; startedMs: number }) {
  const { queue, outcome, startedMs } = ended;
  const seconds = (performance.now() - startedMs) / 1000;
  context.metrics.jobSeconds.observe({ queue, outcome }, seconds);
  return { outcome, ms: Math.round(seconds * 1000) };
}

/** A job that this build does not know is left to newer workers. */
function isOfNewerBuild({ contract }: Handler, { job }: HeldJob): boolean {
  const { version } = job.data as { version?: unknown };
  if (typeof version === 'number' && version > PAYLOAD_VERSION) return true;
  return !(contract.jobNames ?? [contract.name]).includes(job.name);
}

/** Does the work if its tenant has a free slot, and reports the duration; else puts the job back while others run. */
async function inSlot<T>(
  context: Context,
  { held, tenantId, isRoutine }: { held: HeldJob; tenantId: string | undefined; isRoutine: true | undefined },
  work: () => Promise<T>,
): Promise<T> {
  const { slots } = held;
  if (!slots || tenantId === undefined) return work();
  const giveBack = slots.take(tenantId);
  if (!giveBack) return putBack(held, slots.pauseMs(tenantId));
  const startedMs = performance.now();
  try {
    return await work();
  } finally {
    giveBack();
    if (!isRoutine) context.order.spent(tenantId, performance.now() - startedMs);
  }
}
