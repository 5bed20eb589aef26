/** Ends a run other than by its answer: cancelled, completed by a person or when idle, or failed. */
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
  /** The one who ends it, for the audit log. */
  by?: AuditedBy;
}

/**
 * Cancels a run and its descendants at once, whoever drives it: revokes the claim, tells its worker over the bus, refuses
 * calls not begun; a call in flight with a worker settles in its own row. Returns false if it was already cancelled. Throws
 * 409 if it has ended otherwise.
 */
export async function cancelRun(context: Context, ref: RunRef, reason?: string): Promise<boolean> {
  return cancelIf(context, { ...ref, reason }, (run) => {
    if (run.status !== 'cancelled') mustBeUnfinished(run);
    return run.status !== 'cancelled';
  });
}

/** Like `cancelRun`, but accepts any other end. Returns whether this call cancelled it. */
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

/** After the commit: tells the drivers of a cancelled run and its descendants. */
export function tellCancelled(
  context: Context,
  { runId, fence, below }: { runId: string; fence: number; below: readonly CancelledRun[] },
): void {
  context.bus.publish({ subject: runId, kind: 'abort', reason: 'cancel', below: fence });
  announceCancelled(context, below);
}

/** The change that cancels an unfinished run whose row is locked. Cancels its descendants, to be announced after the commit. */
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

/**
 * Completes a run that waits between turns. Returns false if it was already completed. Throws 409 if it has ended otherwise,
 * or is working.
 */
export async function completeRun(context: Context, ref: RunRef): Promise<boolean> {
  return (await complete(context, ref, { actor: 'user', stopReason: 'completed' })) !== null;
}

/** Completes a run that was idle at this position of its log. Returns false, without a change, if it no longer is. */
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

/** The change that completes a run that waits between turns and whose row is locked. */
export function completion(run: Pick<RunRow, 'status'>, { actor, stopReason }: Completion): AppendedChange {
  return { events: endAsCompleted({ status: run.status }, actor, stopReason) };
}

/** Fails a run that could not be driven, for a cause that will not go away by itself. */
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

/** The change that fails a run whose row is locked. Cancels its descendants, to be announced after the commit. */
export async function failure(
  tx: Tx,
  run: RunRow,
  error: { code: string; message: string },
): Promise<{ change: AppendedChange; cancelled: CancelledRun[] }> {
  const { events, cancelled } = await cancelChildren(tx, run, error.code);
  const approvals = await closeApprovals(tx, run);
  const { calls, events: closed } = await closeCalls(tx, run, 'failed');
  const failed: NewEvent[] = [
    ...approvals,
    ...closed,
    ...(await closeCallBatch(tx, run)),
    ...events,
    ...endAsFailed(openRun(run), error),
  ];
  return { change: { events: failed, calls, close_waits: true, bump_fence: true, release: true }, cancelled };
}

function mustBeUnfinished(run: RunRow): void {
  if (isTerminal(run.status)) throw conflict(`The run is ${run.status} already.`, { status_of_run: run.status });
}

function openRun({ status, open_turn_id }: RunRow): OpenRun {
  return { status, turnId: open_turn_id ?? undefined };
}
