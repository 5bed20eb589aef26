/** Cancels a task with the run that works on it. */
import type { Caller } from '../../core/caller.ts';
import { conflict } from '../../core/errors.ts';
import { isTerminal } from '../../core/events.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { Tx } from '../../db/database.ts';
import { isDoneByChild } from '../../db/end-tasks.ts';
import { cancelTaskRow, findTask, hasOtherTasks, type TaskRow } from '../../db/tasks.ts';
import { findWorkflow } from '../../db/workflows.ts';
import { SUBTASKS } from '../../jobs/subtasks.ts';
import { newId } from '../../lib/new-id.ts';
import type { Context } from '../governance/context.ts';
import { appendToRun, type AppendedChange } from '../run-log/append-to-run.ts';
import { announceCancelled, cancelChild, type CancelledRun } from '../runs/cancel-children.ts';
import { cancelIn, tellCancelled } from '../runs/end-run.ts';
import { requireTask } from './read-workflows.ts';

/**
 * Cancels a task. In a workflow of separately submitted tasks the others go on, and the last one ends it. A subtask of
 * a plan fails its workflow; a delegated one is reported to the agent that waits for it. Returns false if it was
 * cancelled already, or its workflow has ended; throws 404, and 409 for a task that has ended otherwise.
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
  const isOfTasks = workflow?.name === '';
  let cancelled: CancelledRun[] = [];
  let isLast = false;
  const appended = await appendToRun(context, { tenantId, runId }, async (run, tx) => {
    const now = await findTask(tx, id);
    // It may have ended before its workflow was locked.
    if (now) mustBeOpen(now);
    if (await isDoneByChild(tx, id)) mustBeOpen({ status: 'completed' });
    if (!now || now.status === 'cancelled' || isTerminal(run.status)) return null;
    isLast = isOfTasks && !(await hasOtherTasks(tx, { workflowId: runId, id }));
    const { change, cancelled: below } = await (isLast
      ? cancelIn(tx, run, { by: caller })
      : cancelOne(tx, run, { task: now, isOfTasks }));
    cancelled = below;
    return change;
  });
  if (!appended) return false;
  if (isLast) tellCancelled(context, { runId, fence: appended.fence, below: cancelled });
  else announceCancelled(context, cancelled);
  return true;
}

async function cancelOne(
  tx: Tx,
  run: RunRow,
  { task: { id, run_id }, isOfTasks }: { task: TaskRow; isOfTasks: boolean },
): Promise<{ change: AppendedChange; cancelled: CancelledRun[] }> {
  const { id: runId, tenant_id: tenantId, open_turn_id } = run;
  // Before the task's row, as whoever erases its run holds that first. The task is open: its workflow is locked.
  const cancelled = run_id ? await cancelChild(tx, { tenantId, runId: run_id }, 'task cancelled') : [];
  await cancelTaskRow(tx, id, { isDropped: isOfTasks });
  const payload = { task_id: id, ...(run_id && { run_id }) };
  const change: AppendedChange = {
    events: [{ type: 'task.cancelled', actor: 'user', turn_id: open_turn_id ?? undefined, payload }],
    outbox: [{ id: newId(), queue: SUBTASKS.name, at_position: true, payload: { tenantId, runId } }],
  };
  return { change, cancelled };
}

function mustBeOpen({ status }: Pick<TaskRow, 'status'>): void {
  if (status === 'completed' || status === 'failed') throw conflict(`The task is ${status} already.`);
}
