/** Cancels a task with the run that works on it. */
import type { Caller } from '../../core/caller.ts';
import { conflict } from '../../core/errors.ts';
import { isTerminal } from '../../core/events.ts';
import { cancelTaskRow, findTask, type TaskRow } from '../../db/tasks.ts';
import { findWorkflow } from '../../db/workflows.ts';
import { SUBTASKS } from '../../jobs/subtasks.ts';
import { newId } from '../../lib/new-id.ts';
import type { Context } from '../governance/context.ts';
import { appendToRun } from '../run-log/append-to-run.ts';
import { announceCancelled, cancelChild, type CancelledRun } from '../runs/cancel-children.ts';
import { cancelRun } from '../runs/end-run.ts';
import { requireTask } from './read-workflows.ts';

/**
 * A task that stands alone ends with its workflow; one among others fails the workflow that needs it; of one that was
 * delegated the agent that waits for it is told. Answers false if it
 * was cancelled already; throws 404, and 409 for a task that has ended otherwise.
 */
export async function cancelTask(context: Context, caller: Caller, id: string): Promise<boolean> {
  const { tenantId } = caller;
  const { task, runId, workflow } = await context.db.withTenant(tenantId, async (tx) => {
    const found = await requireTask(tx, caller, id);
    const above = found.workflow_id ?? found.parent_run_id ?? '';
    return { task: found, runId: above, workflow: await findWorkflow(tx, above) };
  });
  if (task.status === 'cancelled') return false;
  mustBeOpen(task);
  if (workflow?.name === '') return cancelRun(context, { tenantId, runId, by: caller });
  let cancelled: CancelledRun[] = [];
  const appended = await appendToRun(context, { tenantId, runId }, async (run, tx) => {
    const now = await findTask(tx, id);
    // It may have ended while nobody held its workflow.
    if (now) mustBeOpen(now);
    if (isTerminal(run.status) || !(await cancelTaskRow(tx, id))) return null;
    cancelled = now?.run_id ? await cancelChild(tx, { tenantId, runId: now.run_id }, 'task cancelled') : [];
    const payload = { task_id: id, ...(now?.run_id && { run_id: now.run_id }) };
    return {
      events: [{ type: 'task.cancelled', actor: 'user', turn_id: run.open_turn_id ?? undefined, payload }],
      outbox: [{ id: newId(), queue: SUBTASKS.name, at_position: true, payload: { tenantId, runId: run.id } }],
    };
  });
  announceCancelled(context, cancelled);
  return appended !== null;
}

function mustBeOpen({ status }: TaskRow): void {
  if (status === 'completed' || status === 'failed') throw conflict(`The task is ${status} already.`);
}
