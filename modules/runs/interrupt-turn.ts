/** A person ends the open turn of a run that continues: at once, whoever drives it. */
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
  /** For calls that are not made, or whose results nobody awaits. */
  error: { code: string; message: string };
  /** Events of a decision, before the end of the turn; they have closed the approvals and the plan. */
  decided?: readonly NewEvent[];
}

/**
 * The change that ends the open turn of a locked run: revokes the driver's claim, closes the calls for the model, undoes
 * handoffs, and lets a waiting message begin the next turn. After the commit, call `announceInterruption`.
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

/**
 * Tells the former driver, and the workers that make its calls, that the turn is over; not those of the next turn, which may
 * have begun.
 */
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
