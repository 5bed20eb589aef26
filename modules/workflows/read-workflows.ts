/** Workflows and tasks as they are shown, of the caller's workspace alone. */
import type { Caller } from '../../core/caller.ts';
import { notFound } from '../../core/errors.ts';
import type { Tx } from '../../db/database.ts';
import { findTask, listTasks, listTasksOf, type TaskRow, type TaskStatus } from '../../db/tasks.ts';
import { findWorkflow, listWorkflows, type WorkflowRow } from '../../db/workflows.ts';
import type { RunStatus } from '../../core/events.ts';

export { TASK_STATUSES, type TaskRow } from '../../db/tasks.ts';
export { type WorkflowRow } from '../../db/workflows.ts';

/** A workflow with its tasks. Throws 404. */
export async function requireWorkflow(
  tx: Tx,
  caller: Caller,
  id: string,
): Promise<{ workflow: WorkflowRow; tasks: TaskRow[] }> {
  const workflow = await findWorkflow(tx, id);
  if (workflow?.workspace_id !== caller.workspaceId) throw notFound('The workflow');
  return { workflow, tasks: await listTasksOf(tx, id) };
}

/** A page, newest first. */
export async function readWorkflows(
  tx: Tx,
  caller: Caller,
  page: { before: string | undefined; limit: number; status: readonly RunStatus[] | undefined },
): Promise<WorkflowRow[]> {
  return listWorkflows(tx, { ...page, workspaceId: caller.workspaceId });
}

/** A task. Throws 404. */
export async function requireTask(tx: Tx, caller: Caller, id: string): Promise<TaskRow> {
  const task = await findTask(tx, id);
  if (task?.workspace_id !== caller.workspaceId) throw notFound('The task');
  return task;
}

/** A page, newest first. */
export async function readTasks(
  tx: Tx,
  caller: Caller,
  page: {
    before: string | undefined;
    limit: number;
    workflowId: string | undefined;
    status: readonly TaskStatus[] | undefined;
  },
): Promise<TaskRow[]> {
  return listTasks(tx, { ...page, workspaceId: caller.workspaceId });
}
