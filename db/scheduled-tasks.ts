/** Reads tasks for the scheduler of workflows: all tasks, or, for a join, only those that changed or can start. */
import { OUT_OF_BUDGET, type RunStatus } from '../core/events.ts';
import type { Tx } from './database.ts';
import { READY } from './task-inputs.ts';
import type { Problem, TaskInput, TaskRequirements, TaskStatus } from './tasks.ts';

/**
 * For subtask `t` with child `r`: the child has done it, even if nobody has noticed. Tasks handed over are done when their
 * handoffs say so.
 */
export const IS_DONE_BY_CHILD = `t.status in ('assigned', 'in_progress') and t.handoff_count = 0 and r.status = 'completed'
  and r.stop_reason is distinct from '${OUT_OF_BUDGET}'
  and not exists (select from handoffs h where h.source_run_id = r.id and h.status = 'initiated')`;

/** A task with the scheduler's data, the state of its child, and people's decisions. */
export interface ScheduledTask {
  id: string;
  name: string;
  description: string;
  input: TaskInput | null;
  requirements: TaskRequirements;
  agent_id: string | null;
  dependencies: string[];
  status: TaskStatus;
  retry_count: number;
  /** Number of handovers and returns. */
  handoff_count: number;
  failed_agents: string[];
  assigned_agent_id: string | null;
  run_id: string | null;
  error: Problem | null;
  approval_status: string | null;
  deadline_ms: number | null;
  /** Longest chain of dependent tasks, itself included. */
  path: number;
  /** Its deadline has passed. */
  is_due: boolean;
  /** Its plan is not complete yet. */
  is_early: boolean;
  /** Its agent sends no heartbeats. */
  is_stranded: boolean;
  /** Its child has done it. */
  is_done: boolean;
  /** The handoff that waits for the end of its child. */
  handed_on: string | null;
  run: {
    status: RunStatus;
    stop_reason: string | null;
    error: Problem | null;
    tokens: number;
    latency_ms: number | null;
  } | null;
}

const SCHEDULED = `t.id, t.name, t.description, t.input, t.requirements, t.agent_id, t.dependencies, t.status, t.retry_count,
  t.handoff_count, t.failed_agents, t.assigned_agent_id, t.run_id, t.error, a.status as approval_status, t.is_early, t.path,
  (extract(epoch from t.deadline) * 1000)::float8 as deadline_ms,
  coalesce(t.deadline < clock_timestamp(), false) as is_due,
  t.status in ('assigned', 'in_progress') and exists (
    select from agents g where g.id = t.assigned_agent_id and g.status = 'offline') as is_stranded,
  coalesce(${IS_DONE_BY_CHILD}, false) as is_done,
  case when r.status in ('completed', 'failed', 'cancelled') then (
    select h.id from handoffs h where h.source_run_id = r.id and h.status = 'initiated' order by h.created_at desc, h.id desc limit 1) end as handed_on,
  case when r.id is not null then jsonb_build_object('status', r.status, 'stop_reason', r.stop_reason, 'error', r.error,
    'tokens', r.tokens_in + r.tokens_out,
    'latency_ms', round(extract(epoch from r.completed_at - coalesce(r.started_at, r.created_at)) * 1000)) end as run`;
const JOINED = `left join runs r on r.id = t.run_id and t.status in ('assigned', 'in_progress')
  left join approvals a on a.id = t.approval_id`;

/** A task's columns for the reads above. Listed, since statements with `*` are not prepared (db/statement-names.ts). */
const COLUMNS = `id, name, place, description, input, requirements, agent_id, dependencies, status, retry_count, handoff_count, failed_agents,
  assigned_agent_id, run_id, error, approval_id, is_early, path, deadline`;

/**
 * All tasks of a workflow whose run the caller has locked, without those dropped from its plan. Rows of ended children do not
 * change any more.
 */
export async function listScheduledTasks(tx: Tx, workflowId: string): Promise<ScheduledTask[]> {
  return tx.query<ScheduledTask>(
    `select ${SCHEDULED} from tasks t ${JOINED}
     where t.workflow_id = $1 and not (t.is_early and t.status = 'cancelled') order by t.place, t.id`,
    [workflowId],
  );
}

/** Of these, tasks that may have changed: begun, failed or cancelled ones, and those past their deadline. */
export async function listTasksUnderWay(tx: Tx, workflowId: string): Promise<ScheduledTask[]> {
  return tx.query<ScheduledTask>(
    `select ${SCHEDULED} from (
       select ${COLUMNS} from tasks where workflow_id = $1 and not (is_early and status = 'cancelled')
         and status in ('assigned', 'in_progress', 'awaiting_handoff', 'failed', 'cancelled')
       union all
       select ${COLUMNS} from tasks where workflow_id = $1 and status = 'pending' and deadline < clock_timestamp()) t ${JOINED}
     order by t.place, t.id`,
    [workflowId],
  );
}

/** Of these, up to `limit` tasks whose inputs are all there, in starting order. */
export async function listReadyTasks(tx: Tx, workflowId: string, limit: number): Promise<ScheduledTask[]> {
  return tx.query<ScheduledTask>(
    `select ${SCHEDULED} from (select ${COLUMNS} ${READY}) t ${JOINED} order by t.deadline, t.path desc, t.place`,
    [workflowId, limit],
  );
}

export type Progress = 'nothing' | 'under way' | 'done';

/** Whether a workflow has tasks, and any that is not completed. */
export async function howFar(tx: Tx, workflowId: string): Promise<Progress> {
  const [row] = await tx.query<{ some: boolean; open: boolean }>(
    `select exists (select from tasks where workflow_id = $1 and not (is_early and status = 'cancelled')) as some,
       exists (select from tasks where workflow_id = $1 and status <> 'completed' and not (is_early and status = 'cancelled')) as open`,
    [workflowId],
  );
  if (!row?.some) return 'nothing';
  return row.open ? 'under way' : 'done';
}
