/** Reads workflows and tasks of the caller's workspace. */
import type { Caller } from '../../core/caller.ts';
import { notFound } from '../../core/errors.ts';
import type { Tx } from '../../db/database.ts';
import { listTasksUnderWay } from '../../db/scheduled-tasks.ts';
import { listFittingTasks, type TaskOfWorkflow } from '../../db/fitting-tasks.ts';
import { findTask, listTasks, type TaskRow, type TaskStatus } from '../../db/tasks.ts';
import { findRun, listWaiting, type RunView } from '../../db/runs.ts';
import { findWorkflow, listWorkflows, type WorkflowRow } from '../../db/workflows.ts';
import type { RunStatus } from '../../core/events.ts';
import type { Context } from '../governance/context.ts';
import { readPendingReasons } from './pending-reasons.ts';

export { type TaskOfWorkflow } from '../../db/fitting-tasks.ts';
export { TASK_STATUSES, type TaskRow } from '../../db/tasks.ts';
export { type WorkflowRow } from '../../db/workflows.ts';

/** A workflow with its tasks, as far as they fit on a page. Throws 404. */
export async function requireWorkflow(
  tx: Tx,
  caller: Caller,
  id: string,
): Promise<{ workflow: WorkflowRow; tasks: TaskOfWorkflow[] }> {
  const workflow = await findWorkflow(tx, id);
  if (workflow?.workspace_id !== caller.workspaceId) throw notFound('The workflow');
  return { workflow, tasks: await listFittingTasks(tx, id) };
}

/** Runs to show as waiting: the workflow's own, and the waiting children of open tasks, by task; and why others are pending. */
export interface Waiting {
  own: RunView | undefined;
  children: ReadonlyMap<string, RunView>;
  reasons: ReadonlyMap<string, string>;
}

/** What is shown of a task while it waits. */
export type WaitingTask = Pick<TaskRow, 'id' | 'name'>;

/** What a workflow and its tasks wait for. */
export async function readWaiting(
  tx: Tx,
  { workflow, tasks }: { workflow: WorkflowRow; tasks: readonly TaskRow[] },
): Promise<Waiting> {
  const [own, waits] = await Promise.all([findRun(tx, workflow.id), readTaskWaits(tx, tasks)]);
  return { own, ...waits };
}

/** What these tasks wait for. */
export async function readTaskWaits(tx: Tx, tasks: readonly TaskRow[]): Promise<Omit<Waiting, 'own'>> {
  const [children, reasons] = await Promise.all([readWaitingChildren(tx, tasks), readPendingReasons(tx, tasks)]);
  return { children, reasons };
}

/** Children that wait for something, by the open task they work on. */
export async function readWaitingChildren(
  tx: Tx,
  tasks: readonly Pick<TaskRow, 'id' | 'status' | 'run_id'>[],
): Promise<Waiting['children']> {
  const open = tasks.flatMap(({ id, status, run_id }) =>
    run_id !== null && status === 'in_progress' ? [{ id, run_id }] : [],
  );
  if (open.length === 0) return new Map();
  const runs = await listWaiting(
    tx,
    open.map(({ run_id }) => run_id),
  );
  const byRun = new Map(runs.map((run) => [run.id, run]));
  const found = new Map<string, RunView>();
  for (const { id, run_id } of open) {
    const run = byRun.get(run_id);
    if (run) found.set(id, run);
  }
  return found;
}

/** A workflow's tasks under way, with their children that wait for something. */
export async function readWaitingTasks(
  { db }: Pick<Context, 'db'>,
  of: { tenantId: string; runId: string },
): Promise<{ tasks: readonly WaitingTask[]; children: Waiting['children'] }> {
  return db.withTenant(of.tenantId, async (tx) => {
    const tasks = await listTasksUnderWay(tx, of.runId);
    return { tasks, children: await readWaitingChildren(tx, tasks) };
  });
}

/** A page of workflows, newest first. */
export async function readWorkflows(
  tx: Tx,
  caller: Caller,
  page: { before: string | undefined; limit: number; status: readonly RunStatus[] | undefined },
): ReturnType<typeof listWorkflows> {
  return listWorkflows(tx, { ...page, workspaceId: caller.workspaceId });
}

/** A task. Throws 404. */
export async function requireTask(tx: Tx, caller: Caller, id: string): Promise<TaskRow> {
  const task = await findTask(tx, id);
  if (task?.workspace_id !== caller.workspaceId) throw notFound('The task');
  return task;
}

/** A page of tasks, newest first. */
export async function readTasks(
  tx: Tx,
  caller: Caller,
  page: {
    before: string | undefined;
    limit: number;
    workflowId: string | undefined;
    status: readonly TaskStatus[] | undefined;
  },
): ReturnType<typeof listTasks> {
  return listTasks(tx, { ...page, workspaceId: caller.workspaceId });
}
