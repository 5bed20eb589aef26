/** The ways a run ends other than by its own answer: cancelled, completed by a person, or idle for too long. */
import { endAsCompleted, endAsFailed, type OpenRun } from '../../core/decision-events/endings.ts';
import { conflict } from '../../core/errors.ts';
import { isTerminal, type Actor, type NewEvent } from '../../core/events.ts';
import { mayBecome } from '../../core/transitions.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { Tx } from '../../db/database.ts';
import type { Context } from '../governance/context.ts';
import { appendToRun, type AppendedChange } from '../run-log/append-to-run.ts';
import { reasonGiven, recordAudit, type AuditedBy } from '../audit/record-audit.ts';
import { announceCancelled, cancelChildren, cancellation, type CancelledRun } from './cancel-children.ts';
import { closeApprovals, closeCalls, closeCallBatch } from './end/close-open.ts';

interface RunRef {
  tenantId: string;
  runId: string;
  /** Whoever ends it, for the audit log. */
  by?: AuditedBy;
}

/**
 * Cancels a run at once with all that stands below it, whoever drives it: the claim is taken away, its worker is told over the bus, calls that were
 * not begun never are; a call in flight settles in its own row. Answers false if it was cancelled already. Throws 409 where it has ended otherwise.
 */
export async function cancelRun(context: Context, ref: RunRef, reason?: string): Promise<boolean> {
  return cancelIf(context, { ...ref, reason }, (run) => {
    if (run.status !== 'cancelled') mustBeUnfinished(run);
    return run.status !== 'cancelled';
  });
}

/** The same where it does as well that somebody else ends the run first. Answers whether it was cancelled by this. */
export async function cancelUnlessEnded(context: Context, ref: RunRef, reason?: string): Promise<boolean> {
  return cancelIf(context, { ...ref, reason }, (run) => !isTerminal(run.status));
}

async function cancelIf(
  context: Context,
  { reason, by, ...ref }: RunRef & { reason: string | undefined },
  isMeant: (run: RunRow) => boolean,
): Promise<boolean> {
  let below: CancelledRun[] = [];
  const appended = await appendToRun(context, ref, async (run, tx) => {
    if (!isMeant(run)) return null;
    const { change, cancelled } = await cancelIn(tx, run, { by, reason });
    below = cancelled;
    return change;
  });
  if (!appended) return false;
  tellCancelled(context, { runId: ref.runId, fence: appended.fence, below });
  return true;
}

/** Tells whoever drives a run that was cancelled, and its descendants, once that is committed. */
export function tellCancelled(
  context: Context,
  { runId, fence, below }: { runId: string; fence: number; below: readonly CancelledRun[] },
): void {
  context.bus.publish({ subject: runId, kind: 'abort', reason: 'cancel', below: fence });
  announceCancelled(context, below);
}

/** What cancels an unfinished run whose row is locked, with its descendants, which are to be announced after the commit. */
export async function cancelIn(
  tx: Tx,
  run: RunRow,
  { by, reason }: { by: AuditedBy | undefined; reason?: string | undefined },
): Promise<{ change: AppendedChange; cancelled: CancelledRun[] }> {
  const details = { status: run.status, ...reasonGiven(reason) };
  const audited = by ?? { tenantId: run.tenant_id };
  await recordAudit(tx, audited, { action: 'run.cancelled', target: ['run', run.id], details });
  const { events, cancelled } = await cancelChildren(tx, run, reason);
  return { change: await cancellation(tx, run, { reason, events }), cancelled };
}

/** Completes a run that waits between turns. Answers false if it is completed already. */
export async function completeRun(context: Context, ref: RunRef): Promise<boolean> {
  return (await complete(context, ref, { actor: 'user', stopReason: 'completed' })) !== null;
}

/** Completes a run that was idle at this position of its log; answers false for one that is not any more, which stays as it is. */
export async function expireRun(context: Context, ref: RunRef & { seq: number }): Promise<boolean> {
  const appended = await appendToRun(context, ref, (run) => {
    const isIdle = run.last_seq === ref.seq && !run.open_turn_id && mayBecome(run.status, 'completed');
    return isIdle ? completion(run, { actor: 'system', stopReason: 'idle' }) : null;
  });
  return appended !== null;
}

function complete(context: Context, ref: RunRef, how: Completion) {
  return appendToRun(context, ref, (run) => {
    if (run.status === 'completed') return null;
    mustBeUnfinished(run);
    if (run.open_turn_id)
      throw conflict(`The run is still working on turn ${run.open_turn_id}; wait for it or cancel.`);
    if (!mayBecome(run.status, 'completed')) throw conflict(`A run that is ${run.status} cannot become completed.`);
    return completion(run, how);
  });
}

interface Completion {
  actor: Actor;
  stopReason: string;
}

/** What completes a run that waits between turns, whose row is locked. */
export function completion(run: Pick<RunRow, 'status'>, { actor, stopReason }: Completion): AppendedChange {
  return { events: endAsCompleted({ status: run.status }, actor, stopReason) };
}

/** Fails a run that could not be driven: what kept it from going on will not go away by itself. */
export async function failRun(context: Context, ref: RunRef, error: { code: string; message: string }): Promise<void> {
  let below: CancelledRun[] = [];
  const appended = await appendToRun(context, ref, async (run, tx) => {
    if (isTerminal(run.status)) return null;
    const failed = await failure(tx, run, error);
    below = failed.cancelled;
    return failed.change;
  });
  if (appended) announceCancelled(context, below);
}

/** What fails a run whose row is locked, with its descendants, which are to be announced after the commit. */
export async function failure(
  tx: Tx,
  run: RunRow,
  error: { code: string; message: string },
): Promise<{ change: AppendedChange; cancelled: CancelledRun[] }> {
  const { events, cancelled } = await cancelChildren(tx, run, error.code);
  const failed: NewEvent[] = [
    ...(await closeApprovals(tx, run)),
    ...(await closeCallBatch(tx, run)),
    ...events,
    ...endAsFailed(openRun(run), error),
  ];
  const calls = await closeCalls(tx, run.id, 'failed');
  return { change: { events: failed, calls, close_waits: true, bump_fence: true, release: true }, cancelled };
}

function mustBeUnfinished(run: RunRow): void {
  if (isTerminal(run.status)) throw conflict(`The run is ${run.status} already.`, { status_of_run: run.status });
}

function openRun({ status, open_turn_id }: RunRow): OpenRun {
  return { status, turnId: open_turn_id ?? undefined };
}
