/** Tasks of workflows. Changed only under the lock of the workflow's run. */
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

/** A task as shown: `output` is its child's answer. */
export interface TaskRow {
  id: string;
  /** Null for tasks delegated by an agent. */
  workflow_id: string | null;
  /** The run that delegated it. */
  parent_run_id: string | null;
  /** The task that it is part of: as submitted, or that of the delegating run. */
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
  /** Progress of its child, final once ended; null without a child. */
  progress: { run_status: RunStatus; steps: number; tokens_used: number } | null;
  tokens_used: string | null;
  latency_ms: number | null;
  deadline: Date | null;
  created_at: Date;
  updated_at: Date;
  completed_at: Date | null;
}

/** A task whose plan is erased is named by its position. */
const NAME = `coalesce(nullif(t.name, ''), 'task-' || (t.place + 1)) as name`;
/** What is shown of a task but its content. */
export const TASK_HEAD = `t.id, t.workflow_id, t.parent_run_id, t.parent_task_id, t.workspace_id, ${NAME}, t.dependencies, t.status,
  t.retry_count, t.assigned_agent_id, t.assigned_at, t.assignment_reason, t.run_id, t.approval_id, t.error, t.tokens_used,
  t.latency_ms, t.deadline, t.created_at, t.updated_at, t.completed_at,
  case when r.id is not null then jsonb_build_object('run_status', r.status, 'steps', r.steps, 'tokens_used', r.tokens_in + r.tokens_out) end as progress`;
const TASK = `${TASK_HEAD}, t.description, t.input, t.requirements, m.content as output`;
/** The size of its content. */
export const TASK_BYTES = `octet_length(t.description) + coalesce(json_bytes(t.input), 0) + json_bytes(t.requirements) + coalesce(json_bytes(m.content), 0) as bytes`;
const SIZED = `${TASK}, ${TASK_BYTES}`;
export const TASKS = `tasks t left join runs r on r.id = t.run_id
  left join messages m on m.lineage = r.lineage and m.ordinal = r.output_ordinal and r.erased_at is null and t.status in ('completed', 'failed')`;

export interface NewTask {
  id: string;
  tenantId: string;
  workspaceId: string;
  workflowId: string | null;
  /** The delegating run, and the task it works on. */
  parent?: { runId: string; taskId: string | null };
  /** The task that it is part of, as submitted. */
  parentTaskId?: string | undefined;
  name: string;
  place: number;
  description: string;
  input: TaskInput | null;
  requirements: TaskRequirements;
  agentId: string | null;
  dependencies: string[];
  deadline: string | null;
  /** Its plan is not complete yet. */
  isEarly?: boolean;
  /** The key that submitted it. */
  requestedBy?: string | undefined;
}

/** Inserts all tasks in one statement. */
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
  // Sent together, like everything written for a plan: statements arrive in the order of sending.
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

/** The tasks of a workflow, in plan order. */
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

/** Whether one of these runs works on an open task. */
export async function hasOpenChild(tx: Tx, runIds: readonly string[]): Promise<boolean> {
  const rows = await tx.query(
    `select from tasks where run_id = any($1::uuid[]) and status in ('assigned', 'in_progress') limit 1`,
    [runIds],
  );
  return rows.length > 0;
}

/** A retry requested by a person gets the original amount of time. */
const DEADLINE_ANEW = 'clock_timestamp() + (deadline - coalesce(asked_at, created_at))';

/** A change of a task; `asked`: a person wants a retry. */
export type TaskChange =
  | { to: 'in_progress'; run_id: string; agent_id: string; reason: string }
  | { to: 'completed'; tokens: number; latency_ms: number }
  | { to: 'pending'; error: Problem; failed_agent: string | null; asked: boolean }
  | { to: 'failed'; error: Problem; tokens: number | null; approval_id: string | null };

/** Changes a task. Ended tasks stay so, except for retries requested by a person. */
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

/** Tasks begun from a plan that was incomplete when the workflow ended, in any state; none if the plan was complete. */
export async function listTasksOfOpenPlan(tx: Tx, workflowId: string): Promise<{ id: string; name: string }[]> {
  return tx.query<{ id: string; name: string }>(
    `select t.id, t.name from workflows w join tasks t on t.workflow_id = w.id and t.is_early
     where w.id = $1 and w.is_planning order by t.place, t.id`,
    [workflowId],
  );
}

/** The plan is complete: keeps those of its subtasks begun earlier, under their final names. */
export async function keepEarlyTasks(tx: Tx, kept: readonly { id: string; name: string }[]): Promise<void> {
  await tx.query(
    `update tasks t set is_early = false, name = k.name, updated_at = now()
     from jsonb_to_recordset($1::jsonb) as k (id uuid, name text) where t.id = k.id and t.is_early`,
    [JSON.stringify(kept)],
  );
}

/** Drops tasks that were begun but are not in the complete plan, done or not. */
export async function dropEarlyTasks(tx: Tx, ids: readonly string[]): Promise<void> {
  await tx.query(
    `update tasks set status = 'cancelled', completed_at = now(), updated_at = now() where id = any($1::uuid[]) and is_early`,
    [ids],
  );
}

/** The task waits for the agent to which it is handed over. */
export async function handOverTask(tx: Tx, id: string): Promise<void> {
  await tx.query(
    `update tasks set status = 'awaiting_handoff', handoff_count = handoff_count + 1, approval_id = null, updated_at = now() where id = $1`,
    [id],
  );
}

/** The task returns to the agent that had handed it over. */
export async function returnTask(tx: Tx, id: string, agentId: string): Promise<void> {
  await tx.query(
    `update tasks set status = 'pending', agent_id = $2, handoff_count = handoff_count + 1, updated_at = now() where id = $1`,
    [id, agentId],
  );
}

/** Cancels a task that has not ended; `isDropped`: it no longer belongs to its workflow. */
export async function cancelTaskRow(tx: Tx, id: string, { isDropped = false } = {}): Promise<void> {
  await tx.query(
    `update tasks set status = 'cancelled', is_early = $2, completed_at = now(), updated_at = now()
     where id = $1 and status in ('pending', 'assigned', 'in_progress', 'awaiting_handoff')`,
    [id, isDropped],
  );
}

/** Whether a workflow has other tasks that are not cancelled. */
export async function hasOtherTasks(tx: Tx, { workflowId, id }: { workflowId: string; id: string }): Promise<boolean> {
  const rows = await tx.query(
    `select from tasks where workflow_id = $1 and id <> $2 and status <> 'cancelled' limit 1`,
    [workflowId, id],
  );
  return rows.length > 0;
}

/** A task taken over by another workflow: with a new id, and its result if that is kept. */
export interface TakenTask {
  from: string;
  id: string;
  isDone: boolean;
  /** Why only a person may start it. */
  error?: Problem | undefined;
}

/**
 * Copies tasks to another workflow. Completed ones keep the child that did them; others are as if never begun, with all their
 * time, except those with an error.
 */
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

/** Answers of the children that completed these tasks, by task. */
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

/** The names of all tasks of a workflow. */
export async function listTaskNames(tx: Tx, workflowId: string): Promise<string[]> {
  const rows = await tx.query<{ name: string }>('select name from tasks where workflow_id = $1', [workflowId]);
  return rows.map(({ name }) => name);
}

/** How many tasks a workflow has. */
export async function countTasks(tx: Tx, workflowId: string): Promise<number> {
  const [row] = await tx.query<{ tasks: number }>('select count(*)::int as tasks from tasks where workflow_id = $1', [
    workflowId,
  ]);
  return row?.tasks ?? 0;
}
