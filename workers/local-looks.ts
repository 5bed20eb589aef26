/**
 * Looks at parents in the process that has just ended a child, without the queue. One look at a run at a time, and one
 * more for all ends meanwhile. Failed looks go to the queue.
 */
import type { Job } from 'bullmq';
import type { WaitingJob } from '../db/commit-run.ts';
import type { LookHere } from '../jobs/slot-reservation.ts';
import { SUBTASKS, type SubtaskJob } from '../jobs/subtasks.ts';
import { coalesced } from '../lib/coalesce.ts';
import type { Context } from '../modules/governance/context.ts';
import { askFor, lookAtParent, sendLook } from '../modules/workflows/advance-parent.ts';
import type { Duty } from './handler.ts';
import { measured, take, track, type LocalDispatch, type LocalDuty } from './local-dispatch.ts';

interface LocalLooks extends LocalDispatch<LookHere>, Required<Pick<Duty, 'joining'>> {}

/** A requested look. `below`: the job that waits for the child whose end it reports. */
type Asked = SubtaskJob & { below?: WaitingJob | undefined };

/** A child whose job this process holds, and the look that its end requested. */
interface Driven {
  below: WaitingJob | undefined;
  looked?: Promise<unknown>;
}

export function dispatchLooks(context: Context, duty: LocalDuty): LocalLooks {
  const { work, idle } = track();
  const driven = new Map<string, Driven>();

  const look = coalesced((asked: readonly [Asked, ...Asked[]]) => {
    const [job] = asked;
    const childIds = asked.flatMap(({ childId }) => childId ?? []);
    const below = asked.find((each) => each.below)?.below;
    const { tenantId, runId } = job;
    // If any request names no child, the whole parent is looked at.
    const wanted = { tenantId, runId, below, ...(childIds.length === asked.length && { childIds }) };
    return measured(context, { queue: SUBTASKS.name, job }, async () => {
      const { outcome, need } = await lookAtParent(context, wanted);
      if (need) void work(ask(job, need).catch((error: unknown) => leftAlone(error, job)));
      return { outcome, result: outcome };
    });
  });

  /** Asking a model takes time, so it needs a slot like other work. */
  const ask = async (job: SubtaskJob, need: Parameters<typeof askFor>[2]): Promise<void> => {
    const { tenantId, runId } = job;
    const leave = take(duty, tenantId);
    if (!leave) return sendLook(context, job);
    try {
      await askFor(context, { tenantId, runId, stop: duty.stop }, need);
    } finally {
      leave();
    }
  };

  const leftAlone = (error: unknown, { runId }: SubtaskJob) =>
    context.log.warn({ err: error, run: runId }, 'workflow left for reconciliation');

  return {
    idle,
    reserve: (job) => {
      if (duty.draining()) return undefined;
      const child = job.childId === undefined ? undefined : driven.get(job.childId);
      const looked = look(job.runId, { ...job, below: child?.below });
      if (child) child.looked = looked;
      return work(looked);
    },
    async joining(childId, job, drive) {
      const child: Driven = { below: waitingAbove(job) };
      driven.set(childId, child);
      try {
        const done = await drive();
        // A failed look goes to the queue, whether or not it is awaited.
        await child.looked?.catch(() => undefined);
        return done;
      } finally {
        driven.delete(childId);
      }
    },
  };
}

function waitingAbove({ parent }: Job): WaitingJob | undefined {
  return parent?.id === undefined ? undefined : { queue: SUBTASKS.name, job_id: parent.id, waits: true };
}
