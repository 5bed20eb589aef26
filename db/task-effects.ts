/** What the runs that worked on tasks have done outside, which must not be done twice. */
import type { Tx } from './database.ts';

/** Most tools that are named. */
const MOST_NAMED = 10;

/** Runs below `id`, which a statement has as its first term, at whatever depth. */
export const BELOW = `union all select r.id from below b join runs r on r.parent_run_id = b.id`;

/** A call `k` that had an effect which another one like it would have again, or that may have had one. */
export const HAD_EFFECT = `k.effect = 'unknown' and k.status in ('running', 'succeeded', 'unknown') and k.recorded_from is null`;

/** The tools that all attempts at a task of a workflow, or what these have delegated, have called with such an effect, by name. */
export async function listEffectsOfTask(tx: Tx, of: { workflowId: string; taskId: string }): Promise<string[]> {
  const rows = await tx.query<{ name: string }>(
    `with recursive below (id) as (select id from runs where parent_run_id = $1 and parent_task_id = $2 ${BELOW})
     select distinct k.name from below b join tool_calls k on k.run_id = b.id where ${HAD_EFFECT} order by k.name limit ${MOST_NAMED}`,
    [of.workflowId, of.taskId],
  );
  return rows.map(({ name }) => name);
}
