/**
 * Drives turns that this process has just committed, without sending them through the queue, while it has slots that no
 * job waits for. What fails goes to the queue after all, with its attempts. The line in the log says `dispatched: "locally"`.
 */
import type { Context } from '../modules/governance/context.ts';
import { driveRun } from '../modules/runs/drive.ts';
import type { DrivenFrom, ReserveSlot } from '../jobs/slot-reservation.ts';
import { TURNS, type TurnJob } from '../jobs/turns.ts';
import { endOf } from './handle-job.ts';
import type { Duty } from './handler.ts';

export interface LocalDispatch {
  reserve: ReserveSlot;
  /** Waits for the turns that are being driven. */
  idle: () => Promise<void>;
}

export function createLocalDispatch(
  context: Context,
  duty: Duty & Required<Pick<Duty, 'slots' | 'turns'>>,
): LocalDispatch {
  const { slots, turns, draining } = duty;
  const driven = new Set<Promise<void>>();

  const drive = async (job: TurnJob, from: DrivenFrom | undefined): Promise<void> => {
    const startedMs = performance.now();
    let outcome = '';
    const tell = (told: string) => {
      outcome = told;
    };
    try {
      const result = await driveRun(context, job, { ...duty, from, tell });
      const ended = endOf(context, { queue: TURNS.name, outcome: 'ok', startedMs });
      context.log.info({ ...about(job), ...ended, outcome, result }, 'job');
    } catch (error) {
      endOf(context, { queue: TURNS.name, outcome: 'failed', startedMs });
      throw error;
    } finally {
      context.order.spent(job.tenantId, performance.now() - startedMs);
    }
  };

  return {
    reserve(tenantId) {
      if (draining()) return undefined;
      const leaveTurn = turns.tryEnter();
      if (!leaveTurn) return undefined;
      const giveBack = slots.take(tenantId);
      if (!giveBack) {
        leaveTurn();
        return undefined;
      }
      const leave = () => {
        giveBack();
        leaveTurn();
      };
      return {
        leave,
        drive(job, from) {
          const done = drive(job, from)
            .finally(leave)
            .finally(() => driven.delete(done));
          driven.add(done);
          return done;
        },
      };
    },
    async idle() {
      while (driven.size > 0) await Promise.allSettled(driven);
    },
  };
}

function about({ runId: run, turnId: turn, tenantId: tenant, traceparent }: TurnJob) {
  return { queue: TURNS.name, dispatched: 'locally', run, turn, tenant, trace_id: traceparent?.split('-')[1] };
}
