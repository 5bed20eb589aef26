/** External effects and usage of runs that worked on tasks, with all below them. */
import { MADE_THOUGH_FAILED } from '../core/ledger.ts';
import { resultOf, type Tx } from './database.ts';
import { PURPOSES_IN_NO_RUN } from './own-model-calls.ts';

/** Maximum number of tools named. */
const MOST_NAMED = 10;

/** Runs below `id`, which is the first term of the statement, at any depth. */
export const BELOW = `union all select r.id from below b join runs r on r.parent_run_id = b.id`;

/** Whether call `k` had, or may have had, an effect that a similar call would repeat. */
export const HAD_EFFECT = `k.effect = 'unknown' and k.recorded_from is null and (k.status in ('running', 'succeeded', 'unknown')
  or k.error ? 'perhaps_in' or k.status = 'failed' and k.error->>'code' in (${MADE_THOUGH_FAILED.map((code) => `'${code}'`).join(', ')}))`;

/**
 * By task of a workflow: names of tools called with such effects by all attempts, including what these delegated;
 * `sinceAsked`: since a person last asked for a retry.
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

/**
 * Tokens of all attempts at a task since a person last asked for a retry, including what these delegated, and what was set
 * aside or used for their embeddings and summaries, which are in no run's usage.
 */
export async function tokensOfTask(tx: Tx, of: { workflowId: string; taskId: string }): Promise<number> {
  const rows = await tx.query<{ result: number }>(
    `with recursive below (id) as (
       select r.id from tasks t join runs r on r.parent_run_id = $1 and r.parent_task_id = t.id and r.created_at >= coalesce(t.asked_at, r.created_at)
         where t.id = $2 ${BELOW})
     select (select coalesce(sum(r.tokens_in + r.tokens_out), 0) from below b join runs r on r.id = b.id)::bigint
       + (select coalesce(sum(s.tokens), 0) from below b join own_model_calls o on o.run_id = b.id and o.purpose in (${PURPOSES_IN_NO_RUN})
           join reservations s on s.run_id = o.id where s.state <> 'released')::bigint as result`,
    [of.workflowId, of.taskId],
  );
  return resultOf(rows);
}
