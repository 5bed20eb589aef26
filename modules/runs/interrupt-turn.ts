/** A person ends the open turn of a run that goes on: at once, whoever drives it. */
import { interruptTurn as interruptTurnEvents } from '../../core/decision-events/endings.ts';
import type { NewEvent } from '../../core/events.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { Tx } from '../../db/database.ts';
import { undoHandoffs } from '../../db/handoffs.ts';
import { listUnfinishedChildren } from '../../db/runs.ts';
import type { Context } from '../governance/context.ts';
import type { Appended, AppendedChange } from '../run-log/append-to-run.ts';
import { lookAtChildren } from '../run-log/join-parent.ts';
import { closeApprovals, closeCallsOfTurn, closeCallBatch } from './end/close-open.ts';
import { turnOfQueued } from './message-queue.ts';

interface Interruption {
  reason: 'interrupt' | 'reject';
  /** Of the calls that are not made, or whose result nobody waits for. */
  error: { code: string; message: string };
  /** Events that come before the end of the turn: a decision. They have closed the approvals and the plan. */
  decided?: readonly NewEvent[];
}

/**
 * What ends the open turn, as a change under the lock of the run: its driver loses it, its calls are closed towards the
 * model, the conversation stays with its agent, and a message that waits begins the next turn. Whoever commits it tells the driver (`announceInterruption`).
 */
export async function interruptedTurn(
  tx: Tx,
  run: RunRow,
  { reason, error, decided }: Interruption,
): Promise<AppendedChange> {
  const { events: closed, calls } = await closeCallsOfTurn(tx, run, error);
  await undoHandoffs(tx, run.id);
  const turn = { status: run.status, turnId: run.open_turn_id ?? undefined };
  const next = turnOfQueued(run);
  return {
    events: [
      ...(decided ?? (await closeApprovals(tx, run))),
      ...closed,
      ...(await closeCallBatch(tx, run)),
      ...interruptTurnEvents(turn, reason),
      ...next.events,
    ],
    calls,
    close_waits: true,
    bump_fence: true,
    release: true,
    outbox: [...next.outbox, ...((await listUnfinishedChildren(tx, run.id)).length > 0 ? lookAtChildren(run) : [])],
  };
}

/** Tells whoever drove the run that its turn is over, and who makes its calls; not the driver and the calls of the next one, which may have begun. */
export function announceInterruption(
  context: Pick<Context, 'bus'>,
  { run, fence }: Pick<Appended, 'run' | 'fence'>,
): void {
  const { id: subject, open_turn_id: turnId } = run;
  context.bus.publish({
    subject,
    kind: 'abort',
    reason: 'interrupt',
    below: fence,
    ...(turnId !== null && { turnId }),
  });
}
