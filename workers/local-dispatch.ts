/**
 * Runs, without the queue, turns, children and tool calls that this process has just committed, while it has slots that
 * no job waits for. Failed ones go to the queue, with its retries. The log line says `dispatched: "locally"`.
 */
import type { Context } from '../modules/governance/context.ts';
import { driveRun } from '../modules/runs/drive.ts';
import { sendJobs } from '../jobs/send-jobs.ts';
import type { DrivenFrom, MakeCall, ReserveCallSlot, ReserveSlot } from '../jobs/slot-reservation.ts';
import { SUBTASKS, type SubtaskJob } from '../jobs/subtasks.ts';
import { laterJob, TOOL_CALLS, type ToolCallJob } from '../jobs/tool-calls.ts';
import { TURNS, type TurnJob } from '../jobs/turns.ts';
import { endOf, traceIdOf } from './handle-job.ts';
import type { Done, Duty } from './handler.ts';

export interface LocalDispatch<R> {
  reserve: R;
  /** Waits for all work under way. */
  idle: () => Promise<void>;
}

export type LocalDuty = Duty &
  Required<Pick<Duty, 'slots' | 'process'>> & {
    /** Whether nothing may bypass the queue now. */
    isHeld: () => boolean;
  };

/** Dispatches turns, in the slots of their queue. */
export function dispatchTurns(context: Context, duty: LocalDuty): LocalDispatch<ReserveSlot> {
  return dispatchDrives(context, { queue: TURNS.name, duty, most: Infinity });
}

/**
 * Dispatches children, in the slots of their queue. A look may begin 64 of them at once: once local children hold half
 * of the slots, the others go to the queue, where processes share them.
 */
export function dispatchChildren(context: Context, duty: LocalDuty, concurrency: number): LocalDispatch<ReserveSlot> {
  return dispatchDrives(context, { queue: SUBTASKS.name, duty, most: Math.ceil(concurrency / 2) });
}

/** `most`: the most drives at a time. */
function dispatchDrives(
  context: Context,
  { queue, duty, most }: { queue: string; duty: LocalDuty; most: number },
): LocalDispatch<ReserveSlot> {
  const { work, idle } = track();
  let taken = 0;

  const drive = (job: TurnJob, from: DrivenFrom | undefined): Promise<void> =>
    measured(context, { queue, job }, () => driveRun(context, job, { ...duty, from }));

  const reserve: ReserveSlot = (tenantId) => {
    const leaveSlot = taken < most ? take(duty, tenantId) : undefined;
    if (!leaveSlot) return undefined;
    taken += 1;
    const leave = once(() => {
      taken -= 1;
      leaveSlot();
    });
    return { leave, drive: (job, from) => work(drive(job, from).finally(leave)) };
  };
  return { reserve, idle };
}

/** Dispatches tool calls, in the slots of their queue. */
export function dispatchCalls(context: Context, duty: LocalDuty): LocalDispatch<ReserveCallSlot> {
  const { work, idle } = track();

  const make = (job: ToolCallJob, attempt: MakeCall): Promise<void> =>
    measured(context, { queue: TOOL_CALLS.name, job }, async () => {
      const { end, outcome } = await attempt(duty.stop);
      if (end.kind === 'later') await sendLater(context, laterJob(job, end.attempt), end.waitMs);
      return { outcome, result: end.kind };
    });

  const reserve: ReserveCallSlot = (tenantId) => {
    const leave = take(duty, tenantId);
    if (!leave) return undefined;
    const failed = (error: unknown, job: ToolCallJob) =>
      context.log.warn({ err: error, run: job.runId, call: job.callId }, 'call left for reconciliation');
    return {
      leave,
      make: (job, attempt) =>
        void work(
          make(job, attempt)
            .catch((error: unknown) => failed(error, job))
            .finally(leave),
        ),
    };
  };
  return { reserve, idle };
}

/** Sends a retry to the queue, like any call. */
async function sendLater({ queues, order }: Context, job: ToolCallJob, waitMs: number): Promise<void> {
  const { tenantId, callId, attempt = 0 } = job;
  const job_id = TOOL_CALLS.id({ callId, attempt });
  const sent = { queue: TOOL_CALLS.name, job_id, payload: job, priority: order.next(tenantId), delay_ms: waitMs };
  await sendJobs(queues, [sent]);
}

/**
 * Takes a slot of the process and one of the tenant; undefined if either is missing, the queue is held, or the process is about
 * to stop.
 */
export function take({ draining, isHeld, process, slots }: LocalDuty, tenantId: string): (() => void) | undefined {
  if (draining() || isHeld()) return undefined;
  const leaveProcess = process.tryEnter();
  if (!leaveProcess) return undefined;
  const giveBack = slots.take(tenantId);
  if (!giveBack) {
    leaveProcess();
    return undefined;
  }
  return once(() => {
    giveBack();
    leaveProcess();
  });
}

function once(act: () => void): () => void {
  let isDone = false;
  return () => {
    if (!isDone) act();
    isDone = true;
  };
}

interface Measured {
  queue: string;
  job: TurnJob | ToolCallJob | SubtaskJob;
}

/** Does the work with a job's log line and metrics. */
export async function measured(context: Context, { queue, job }: Measured, work: () => Promise<Done>): Promise<void> {
  const startedMs = performance.now();
  try {
    const { outcome, result, traceparent = job.traceparent } = await work();
    const ended = endOf(context, { queue, outcome: 'ok', startedMs });
    const about = { queue, dispatched: 'locally', run: job.runId, turn: job.turnId, tenant: job.tenantId };
    context.log.info({ ...about, trace_id: traceIdOf(traceparent), ...ended, outcome, result }, 'job');
  } catch (error) {
    endOf(context, { queue, outcome: 'failed', startedMs });
    throw error;
  } finally {
    context.order.spent(job.tenantId, performance.now() - startedMs);
  }
}

/** Tracks work under way. */
export function track(): { work: (done: Promise<void>) => Promise<void>; idle: () => Promise<void> } {
  const open = new Set<Promise<void>>();
  return {
    work: (done) => {
      const tracked = done.finally(() => open.delete(tracked));
      open.add(tracked);
      return tracked;
    },
    async idle() {
      while (open.size > 0) await Promise.allSettled(open);
    },
  };
}
