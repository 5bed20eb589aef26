/** The end of tasks with their workflow, or with the run that has delegated them. */
import type { Tx } from './database.ts';
import { IS_DONE_BY_CHILD } from './scheduled-tasks.ts';

/** What became of a task that is ended with its workflow, or with the run that has delegated it. */
export type EndedTask = { id: string; run_id: string | null } & (
  | { status: 'cancelled' }
  | { status: 'completed'; run_id: string; tokens_used: string; latency_ms: number }
);

/** Of a task `t` with its child `r`: what was delegated is done when the agent that waits for it is told. */
const IS_DONE = `t.workflow_id is not null and ${IS_DONE_BY_CHILD}`;

/** Ends what has not ended of a workflow, or of what a run has delegated: what a child of a workflow has done is done. Answers which. */
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

/** Whether the child of a task has done it, whoever has looked since. */
export async function isDoneByChild(tx: Tx, id: string): Promise<boolean> {
  const rows = await tx.query(`select from tasks t join runs r on r.id = t.run_id where t.id = $1 and ${IS_DONE}`, [
    id,
  ]);
  return rows.length > 0;
}
