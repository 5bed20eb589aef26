/** Cancels a run's descendants in the transaction that ends the run, so that none is left running. */
import { endAsCancelled } from '../../core/decision-events/endings.ts';
import { isTerminal, type NewEvent } from '../../core/events.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { Tx } from '../../db/database.ts';
import { lockUnfinishedBelow } from '../../db/runs.ts';
import { endOpenTasks, type EndedTask } from '../../db/end-tasks.ts';
import { announceAppended, appendIn, type Appended, type AppendedChange } from '../run-log/append-to-run.ts';
import type { RunLogContext } from '../run-log/run-log-context.ts';
import { closeApprovals, closeCalls, closeCallBatch } from './end/close-open.ts';

/** A run cancelled in a transaction that may not be committed yet. */
export type CancelledRun = Appended;

/**
 * Cancels the unfinished descendants of a run whose row is locked, top down, once all of them are locked, and ends its open tasks:
 * as completed if their child has completed. Returns the events for the run's own log, and the runs to announce after the
 * commit.
 */
export async function cancelChildren(
  tx: Tx,
  parent: Pick<RunRow, 'id' | 'tenant_id' | 'open_turn_id'>,
  reason: string | undefined,
): Promise<{ events: NewEvent[]; cancelled: CancelledRun[] }> {
  const cancelled: CancelledRun[] = [];
  for (const id of await lockUnfinishedBelow(tx, parent.id)) {
    cancelled.push(...(await cancelChild(tx, { tenantId: parent.tenant_id, runId: id }, reason)));
  }
  const tasks = await endOpenTasks(tx, parent.id);
  const events = tasks.map((task) => endOfTask(task, parent.open_turn_id ?? undefined));
  return { events, cancelled };
}

function endOfTask(task: EndedTask, turn_id: string | undefined): NewEvent {
  const { id: task_id, run_id } = task;
  if (task.status === 'cancelled') {
    return { type: 'task.cancelled', actor: 'user', turn_id, payload: { task_id, ...(run_id && { run_id }) } };
  }
  const payload = { task_id, run_id: task.run_id, tokens: Number(task.tokens_used), latency_ms: task.latency_ms };
  return { type: 'task.completed', actor: 'system', turn_id, payload };
}

/** Cancels one run with its descendants, unless it has ended. The caller holds the lock on its parent. */
export async function cancelChild(
  tx: Tx,
  ref: { tenantId: string; runId: string },
  reason: string | undefined,
): Promise<CancelledRun[]> {
  const below: CancelledRun[] = [];
  const own = await appendIn(tx, ref, async (run) => {
    if (isTerminal(run.status)) return null;
    const children = await cancelChildren(tx, run, reason);
    below.push(...children.cancelled);
    return cancellation(tx, run, { reason, events: children.events });
  });
  return own ? [own, ...below] : [];
}

/** The change that cancels a run: calls not begun are refused, and one in flight with a worker settles in its own row. */
export async function cancellation(
  tx: Tx,
  run: RunRow,
  { reason, events }: { reason: string | undefined; events: NewEvent[] },
): Promise<AppendedChange> {
  const open = { status: run.status, turnId: run.open_turn_id ?? undefined };
  const approvals = await closeApprovals(tx, run);
  const closed = await closeCalls(tx, run, 'cancelled');
  return {
    events: [
      ...approvals,
      ...closed.events,
      ...(await closeCallBatch(tx, run)),
      ...events,
      ...endAsCancelled(open, reason),
    ],
    calls: closed.calls,
    close_waits: true,
    bump_fence: true,
    release: true,
  };
}

/** After the commit: sends the jobs, and tells the drivers of these runs to stop. */
export function announceCancelled(context: RunLogContext, cancelled: readonly CancelledRun[]): void {
  for (const appended of cancelled) {
    const { run, fence: below } = appended;
    announceAppended(context, { ...appended, runId: run.id });
    context.bus.publish({ subject: run.id, kind: 'abort', reason: 'cancel', below });
  }
}
