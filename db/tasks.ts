/** Tasks of workflows. They change under the lock of the workflow's run. */
import type { RunStatus } from '../core/events.ts';
import type { StoredBlock } from '../core/content.ts';
import type { Tx } from './database.ts';
import { fetchSizedPage, type Page } from './page-bytes.ts';
import { selectFrom } from './query-builder.ts';
import { countInputs } from './task-inputs.ts';

export const TASK_STATUSES = [
  'pending',
  'assigned',
  'in_progress',
  'awaiting_handoff',
  'completed',
  'failed',
  'cancelled',
] as const;
export type TaskStatus = (typeof TASK_STATUSES)[number];

export interface TaskInput {
  user_query?: string | undefined;
  context?: unknown;
  constraints?: unknown;
}

export interface TaskRequirements {
  required_capabilities?: string[] | undefined;
  preferred_agents?: string[] | undefined;
  excluded_agents?: string[] | undefined;
  max_cost_tokens?: number | undefined;
}

export interface Problem {
  code: string;
  message: string;
}

/** A task as it is shown: `output` is the answer of its child. */
export interface TaskRow {
  id: string;
  /** Null for what an agent has delegated. */
  workflow_id: string | null;
  /** The run that has delegated it. */
  parent_run_id: string | null;
  /** The task that it is a part of: as whoever submitted it has said, or the one whose run has delegated it. */
  parent_task_id: string | null;
  workspace_id: string;
  name: string;
  description: string;
  input: TaskInput | null;
  requirements: TaskRequirements;
  dependencies: string[];
  status: TaskStatus;
  retry_count: number;
  assigned_agent_id: string | null;
  assigned_at: Date | null;
  assignment_reason: string | null;
  run_id: string | null;
  approval_id: string | null;
  error: Problem | null;
  output: StoredBlock[] | null;
  /** How far its child has come, or had when it ended; null where there was none. */
  progress: { run_status: RunStatus; steps: number; tokens_used: number } | null;
  tokens_used: string | null;
  latency_ms: number | null;
  deadline: Date | null;
  created_at: Date;
  updated_at: Date;
  completed_at: Date | null;
}

/** A task whose plan is erased is called by its place in it. */
const NAME = `coalesce(nullif(t.name, ''), 'task-' || (t.place + 1)) as name`;
const TASK = `t.id, t.workflow_id, t.parent_run_id, t.parent_task_id, t.workspace_id, ${NAME}, t.description, t.input, t.requirements, t.dependencies, t.status,
  t.retry_count, t.assigned_agent_id, t.assigned_at, t.assignment_reason, t.run_id, t.approval_id, t.error, t.tokens_used,
  t.latency_ms, t.deadline, t.created_at, t.updated_at, t.completed_at, m.content as output,
  case when r.id is not null then jsonb_build_object('run_status', r.status, 'steps', r.steps, 'tokens_used', r.tokens_in + r.tokens_out) end as progress`;
const SIZED = `${TASK}, octet_length(t.description) + coalesce(json_bytes(t.input), 0) + json_bytes(t.requirements) + coalesce(json_bytes(m.content), 0) as bytes`;
const TASKS = `tasks t left join runs r on r.id = t.run_id
  left join messages m on m.lineage = r.lineage and m.ordinal = r.output_ordinal and r.erased_at is null and t.status in ('completed', 'failed')`;

export interface NewTask {
  id: string;
  tenantId: string;
  workspaceId: string;
  workflowId: string | null;
  /** The run that delegates it, and the task that this works on. */
  parent?: { runId: string; taskId: string | null };
  /** The task that it is a part of, as whoever submits it says. */
  parentTaskId?: string | undefined;
  name: string;
  place: number;
  description: string;
  input: TaskInput | null;
  requirements: TaskRequirements;
  agentId: string | null;
  dependencies: string[];
  deadline: string | null;
  /** Its plan is not whole yet. */
  isEarly?: boolean;
  /** The key that has submitted it. */
  requestedBy?: string | undefined;
}

/** Inserts all of them in one statement. */
export async function insertTasks(tx: Tx, tasks: readonly NewTask[]): Promise<void> {
  const rows = tasks.map((task) => ({
    id: task.id,
    tenant_id: task.tenantId,
    workspace_id: task.workspaceId,
    workflow_id: task.workflowId,
    parent_run_id: task.parent?.runId ?? null,
    parent_task_id: task.parent?.taskId ?? task.parentTaskId ?? null,
    name: task.name,
    place: task.place,
    description: task.description,
    input: task.input,
    requirements: task.requirements,
    agent_id: task.agentId,
    dependencies: task.dependencies,
    deadline: task.deadline,
    is_early: task.isEarly ?? false,
    requested_by: task.requestedBy ?? null,
  }));
  // Sent together, as all that is written for a plan: it goes to the database in the order in which it is sent.
  const inserted = tx.query(
    `insert into tasks (id, tenant_id, workspace_id, workflow_id, parent_run_id, parent_task_id, name, place, description, input,
       requirements, agent_id, dependencies, deadline, is_early, requested_by, status)
     select id, tenant_id, workspace_id, workflow_id, parent_run_id, parent_task_id, name, place, description, input, requirements, agent_id, dependencies,
       deadline, is_early, requested_by, 'pending' from jsonb_populate_recordset(null::tasks, $1::jsonb)`,
    [JSON.stringify(rows)],
  );
  const counted = rows.filter(({ workflow_id }) => workflow_id !== null).map(({ id }) => id);
  await Promise.all([inserted, countInputs(tx, counted)]);
}

export async function findTask(tx: Tx, id: string): Promise<TaskRow | undefined> {
  const [row] = await tx.query<TaskRow>(`select ${TASK} from ${TASKS} where t.id = $1`, [id]);
  return row;
}

/** The tasks of a workflow in the order of its plan. */
export async function listTasksOf(tx: Tx, workflowId: string): Promise<TaskRow[]> {
  return tx.query<TaskRow>(`select ${TASK} from ${TASKS} where t.workflow_id = $1 order by t.place, t.id`, [
    workflowId,
  ]);
}

/** A page of the tasks of a workspace, newest first. */
export async function listTasks(
  tx: Tx,
  page: {
    workspaceId: string;
    before?: string | undefined;
    limit: number;
    workflowId?: string | undefined;
    status?: readonly TaskStatus[] | undefined;
  },
): Promise<Page<TaskRow>> {
  const query = selectFrom(SIZED, TASKS, [
    ['t.workspace_id', '=', page.workspaceId],
    ['t.workflow_id', '=', page.workflowId],
    ['t.id', '<', page.before],
    ['t.status', 'in', page.status],
  ]);
  return fetchSizedPage<TaskRow>(tx, query, { order: 'id desc', limit: page.limit });
}

/** Whether one of these runs works on a task that is still open. */
export async function hasOpenChild(tx: Tx, runIds: readonly string[]): Promise<boolean> {
  const rows = await tx.query(
    `select from tasks where run_id = any($1::uuid[]) and status in ('assigned', 'in_progress') limit 1`,
    [runIds],
  );
  return rows.length > 0;
}

/** Whoever has it tried again gives it the time that it had at first. */
const DEADLINE_ANEW = 'clock_timestamp() + (deadline - coalesce(asked_at, created_at))';

/** What becomes of a task; `asked`: a person wants it tried again. */
export type TaskChange =
  | { to: 'in_progress'; run_id: string; agent_id: string; reason: string }
  | { to: 'completed'; tokens: number; latency_ms: number }
  | { to: 'pending'; error: Problem; failed_agent: string | null; asked: boolean }
  | { to: 'failed'; error: Problem; tokens: number | null; approval_id: string | null };

/** Changes a task. An end is final but for what a person wants tried again. */
export async function changeTask(tx: Tx, id: string, change: TaskChange): Promise<void> {
  switch (change.to) {
    case 'in_progress':
      await tx.query(
        `update tasks set status = 'in_progress', run_id = $2, assigned_agent_id = $3, assignment_reason = $4, assigned_at = now(),
           updated_at = now() where id = $1`,
        [id, change.run_id, change.agent_id, change.reason],
      );
      return;
    case 'completed':
      await tx.query(
        `with done as (
           update tasks set status = 'completed', tokens_used = $2, latency_ms = $3, error = null, completed_at = now(),
             updated_at = now() where id = $1 returning dependents)
         update tasks set open_inputs = open_inputs - 1 where id = any(array(select unnest(dependents) from done))`,
        [id, change.tokens, change.latency_ms],
      );
      return;
    case 'pending':
      await tx.query(
        `update tasks set status = 'pending', retry_count = retry_count + 1, error = $2::jsonb, approval_id = null,
           failed_agents = case when $3::uuid is null then failed_agents else array_append(failed_agents, $3::uuid) end,
           deadline = case when $4 then ${DEADLINE_ANEW} else deadline end,
           asked_at = case when $4 then clock_timestamp() else asked_at end, completed_at = null, updated_at = now() where id = $1`,
        [id, JSON.stringify(change.error), change.failed_agent, change.asked],
      );
      return;
    case 'failed':
      await tx.query(
        `update tasks set status = 'failed', error = $2::jsonb, tokens_used = coalesce($3, tokens_used), approval_id = $4,
           completed_at = now(), updated_at = now() where id = $1`,
        [id, JSON.stringify(change.error), change.tokens, change.approval_id],
      );
  }
}

/** What was begun of the plan that a workflow was without at its end, whatever became of that; none where its plan was whole. */
export async function listTasksOfOpenPlan(tx: Tx, workflowId: string): Promise<{ id: string; name: string }[]> {
  return tx.query<{ id: string; name: string }>(
    `select t.id, t.name from workflows w join tasks t on t.workflow_id = w.id and t.is_early
     where w.id = $1 and w.is_planning order by t.place, t.id`,
    [workflowId],
  );
}

/** The plan is whole: these of its subtasks were begun before, under these names in it. */
export async function keepEarlyTasks(tx: Tx, kept: readonly { id: string; name: string }[]): Promise<void> {
  await tx.query(
    `update tasks t set is_early = false, name = k.name, updated_at = now()
     from jsonb_to_recordset($1::jsonb) as k (id uuid, name text) where t.id = k.id and t.is_early`,
    [JSON.stringify(kept)],
  );
}

/** What was begun and the whole plan has not is no task of the workflow any more, whether it is done or not. */
export async function dropEarlyTasks(tx: Tx, ids: readonly string[]): Promise<void> {
  await tx.query(
    `update tasks set status = 'cancelled', completed_at = now(), updated_at = now() where id = any($1::uuid[]) and is_early`,
    [ids],
  );
}

/** It waits for the agent that it is handed to. */
export async function handOverTask(tx: Tx, id: string): Promise<void> {
  await tx.query(
    `update tasks set status = 'awaiting_handoff', handoff_count = handoff_count + 1, approval_id = null, updated_at = now() where id = $1`,
    [id],
  );
}

/** It comes back to the agent that had handed it over. */
export async function returnTask(tx: Tx, id: string, agentId: string): Promise<void> {
  await tx.query(
    `update tasks set status = 'pending', agent_id = $2, handoff_count = handoff_count + 1, updated_at = now() where id = $1`,
    [id, agentId],
  );
}

/** Cancels one task, which is no task of its workflow any more where it is dropped; false if it has ended. */
export async function cancelTaskRow(tx: Tx, id: string, { isDropped = false } = {}): Promise<boolean> {
  const rows = await tx.query(
    `update tasks set status = 'cancelled', is_early = $2, completed_at = now(), updated_at = now()
     where id = $1 and status in ('pending', 'assigned', 'in_progress', 'awaiting_handoff') returning id`,
    [id, isDropped],
  );
  return rows.length > 0;
}

/** Whether a workflow has others than this task, which are not cancelled. */
export async function hasOtherTasks(tx: Tx, { workflowId, id }: { workflowId: string; id: string }): Promise<boolean> {
  const rows = await tx.query(
    `select from tasks where workflow_id = $1 and id <> $2 and status <> 'cancelled' limit 1`,
    [workflowId, id],
  );
  return rows.length > 0;
}

/** A task that is taken over by another workflow: under a new id, with its result where it has one that is kept. */
export interface TakenTask {
  from: string;
  id: string;
  isDone: boolean;
  /** Why it is not begun unless a person says so. */
  error?: Problem | undefined;
}

/** Writes tasks of one workflow into another one. What is done has the child that did it; all else is as if it had never begun, with all its time, but for what has an error. */
export async function copyTasks(tx: Tx, workflowId: string, taken: readonly TakenTask[]): Promise<void> {
  const map = taken.map(({ from, id, isDone, error }) => ({ old: from, id, is_done: isDone, error }));
  await tx.query(
    `with m as (select * from jsonb_to_recordset($2::jsonb) as m (old uuid, id uuid, is_done boolean, error jsonb))
     insert into tasks (id, tenant_id, workspace_id, workflow_id, parent_task_id, name, place, description, input, requirements, agent_id,
       dependencies, deadline, requested_by, status, error, run_id, assigned_agent_id, assigned_at, assignment_reason, tokens_used, latency_ms, completed_at)
     select m.id, t.tenant_id, t.workspace_id, $1,
       coalesce((select p.id from m p where p.old = t.parent_task_id), t.parent_task_id),
       t.name, t.place, t.description, t.input, t.requirements, t.agent_id,
       array(select d.id from unnest(t.dependencies) with ordinality as x (id, n) join m d on d.old = x.id order by x.n),
       case when m.is_done then t.deadline else ${DEADLINE_ANEW} end, t.requested_by,
       case when m.is_done then 'completed' when m.error is not null then 'failed' else 'pending' end, m.error, case when m.is_done then t.run_id end,
       case when m.is_done then t.assigned_agent_id end, case when m.is_done then t.assigned_at end,
       case when m.is_done then t.assignment_reason end, case when m.is_done then t.tokens_used end,
       case when m.is_done then t.latency_ms end, case when m.is_done then t.completed_at end
     from m join tasks t on t.id = m.old`,
    [workflowId, JSON.stringify(map)],
  );
  await countInputs(
    tx,
    map.map(({ id }) => id),
  );
}

/** The answers of the children that completed these tasks, by task. */
export async function readTaskResults(tx: Tx, ids: readonly string[]): Promise<Map<string, StoredBlock[]>> {
  return ids.length === 0 ? new Map() : results(tx, 't.id = any($1::uuid[])', ids);
}

/** The same for all tasks of a workflow. */
export async function readResultsOf(tx: Tx, workflowId: string): Promise<Map<string, StoredBlock[]>> {
  return results(tx, 't.workflow_id = $1', workflowId);
}

async function results(tx: Tx, which: string, value: unknown): Promise<Map<string, StoredBlock[]>> {
  const rows = await tx.query<{ id: string; content: StoredBlock[] }>(
    `select t.id, m.content from tasks t join runs r on r.id = t.run_id
       join messages m on m.lineage = r.lineage and m.ordinal = r.output_ordinal
     where ${which} and r.erased_at is null`,
    [value],
  );
  return new Map(rows.map(({ id, content }) => [id, content]));
}

/** How many tasks a workflow has. */
export async function countTasks(tx: Tx, workflowId: string): Promise<number> {
  const [row] = await tx.query<{ tasks: number }>('select count(*)::int as tasks from tasks where workflow_id = $1', [
    workflowId,
  ]);
  return row?.tasks ?? 0;
}
