/** What the runs that worked on tasks, or stand below another one, have done outside, and what they have used. */
import { MADE_THOUGH_FAILED } from '../core/ledger.ts';
import { resultOf, type Tx } from './database.ts';

/** Most tools that are named. */
const MOST_NAMED = 10;

/** Runs below `id`, which a statement has as its first term, at whatever depth. */
export const BELOW = `union all select r.id from below b join runs r on r.parent_run_id = b.id`;

/** A call `k` that had an effect which another one like it would have again, or that may have had one. */
export const HAD_EFFECT = `k.effect = 'unknown' and k.recorded_from is null and (k.status in ('running', 'succeeded', 'unknown')
  or k.error ? 'perhaps_in' or k.status = 'failed' and k.error->>'code' in (${MADE_THOUGH_FAILED.map((code) => `'${code}'`).join(', ')}))`;

/**
 * By task of a workflow, the tools that all attempts at it, or what these have delegated, have called with such an effect, by name;
 * `sinceAsked`: since a person last had it tried again.
 */
export async function listEffectsOfTasks(
  tx: Tx,
  of: { workflowId: string; taskIds: readonly string[]; sinceAsked?: true },
): Promise<Map<string, string[]>> {
  const rows = await tx.query<{ id: string; names: string[] }>(
    `select t.id, array(
       with recursive below (id) as (
         select r.id from runs r where r.parent_run_id = $1 and r.parent_task_id = t.id
           and (not $3 or r.created_at >= coalesce(t.asked_at, r.created_at)) ${BELOW})
       select distinct k.name from below b join tool_calls k on k.run_id = b.id where ${HAD_EFFECT} order by k.name limit ${MOST_NAMED}) as names
     from tasks t where t.id = any($2::uuid[])`,
    [of.workflowId, of.taskIds, of.sinceAsked ?? false],
  );
  return new Map(rows.map(({ id, names }) => [id, names]));
}

/** Tokens of all attempts at a task, with what they have delegated, since a person last had it tried again. */
export async function tokensOfTask(tx: Tx, of: { workflowId: string; taskId: string }): Promise<number> {
  const rows = await tx.query<{ result: number }>(
    `with recursive below (id) as (
       select r.id from tasks t join runs r on r.parent_run_id = $1 and r.parent_task_id = t.id and r.created_at >= coalesce(t.asked_at, r.created_at)
         where t.id = $2 ${BELOW})
     select coalesce(sum(r.tokens_in + r.tokens_out), 0)::bigint as result from below b join runs r on r.id = b.id`,
    [of.workflowId, of.taskId],
  );
  return resultOf(rows);
}

/** What a run and all below it have used; the cost is a decimal, null where none is known. */
export async function usageBelow(tx: Tx, runId: string): Promise<{ tokens: number; cost_usd: string | null }> {
  const [row] = await tx.query<{ tokens: number; cost_usd: string | null }>(
    `with recursive below (id) as (select $1::uuid ${BELOW})
     select coalesce(sum(r.tokens_in + r.tokens_out), 0)::bigint as tokens, sum(r.cost_usd) as cost_usd
     from below b join runs r on r.id = b.id`,
    [runId],
  );
  return row ?? { tokens: 0, cost_usd: null };
}
