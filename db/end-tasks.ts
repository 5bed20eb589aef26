/** Ends tasks along with their workflow, or the run that delegated them. */
import type { Tx } from './database.ts';
import { IS_DONE_BY_CHILD } from './scheduled-tasks.ts';

/** The result for a task ended this way. */
export type EndedTask = { id: string; run_id: string | null } & (
  | { status: 'cancelled' }
  | { status: 'completed'; run_id: string; tokens_used: string; latency_ms: number }
);

/** For a task `t` with child `r`. Delegated work counts as done only when the waiting agent is told. */
const IS_DONE = `t.workflow_id is not null and ${IS_DONE_BY_CHILD}`;

/** Ends the open tasks of a workflow or of a run's delegations; tasks already done by a workflow's child are completed. Returns them. */
export async function endOpenTasks(tx: Tx, runId: string): Promise<EndedTask[]> {
  return tx.query<EndedTask>(
    `with open as (
       select t.id, r.tokens_in + r.tokens_out as tokens, coalesce(${IS_DONE}, false) as is_done,
         greatest(0, round(extract(epoch from r.completed_at - coalesce(r.started_at, r.created_at)) * 1000))::int as latency_ms
       from tasks t left join runs r on r.id = t.run_id
       where (t.workflow_id = $1 or t.parent_run_id = $1) and t.status in ('pending', 'assigned', 'in_progress', 'awaiting_handoff'))
     update tasks set status = case when open.is_done then 'completed' else 'cancelled' end,
       tokens_used = case when open.is_done then open.tokens else tasks.tokens_used end,
       latency_ms = case when open.is_done then open.latency_ms else tasks.latency_ms end,
       error = case when open.is_done then null else tasks.error end, completed_at = now(), updated_at = now()
     from open where tasks.id = open.id
     returning tasks.id, tasks.run_id, tasks.status, tasks.tokens_used, tasks.latency_ms`,
    [runId],
  );
}

/** Whether a task's child has done it, even if nobody has noticed. */
export async function isDoneByChild(tx: Tx, id: string): Promise<boolean> {
  const rows = await tx.query(`select from tasks t join runs r on r.id = t.run_id where t.id = $1 and ${IS_DONE}`, [
    id,
  ]);
  return rows.length > 0;
}
