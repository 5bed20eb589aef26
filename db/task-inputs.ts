/** What the tasks of a workflow wait for, kept in their rows: so what can start next is found without reading all of them. */
import type { StoredBlock } from '../core/content.ts';
import type { Tx } from './database.ts';

/** Of tasks that are new: what they wait for, and who waits for them. */
export async function countInputs(tx: Tx, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  const dependents = tx.query(
    `update tasks d set dependents = d.dependents || x.ids from (
       select i.input, array_agg(t.id) as ids from tasks t, unnest(t.dependencies) as i (input) where t.id = any($1::uuid[]) group by 1) x
     where d.id = x.input`,
    [ids],
  );
  const inputs = tx.query(`update tasks t set open_inputs = ${OPEN_INPUTS} where t.id = any($1::uuid[])`, [ids]);
  await Promise.all([dependents, inputs]);
}

const OPEN_INPUTS = `(select count(*) from tasks d where d.id = any(t.dependencies) and d.status <> 'completed')`;

/** Counts anew what the tasks of a workflow wait for; answers whether a count was wrong. */
export async function recountInputs(tx: Tx, workflowId: string): Promise<boolean> {
  const rows = await tx.query(
    `update tasks t set open_inputs = ${OPEN_INPUTS} where t.workflow_id = $1 and t.status in ('pending', 'awaiting_handoff')
       and t.open_inputs is distinct from ${OPEN_INPUTS} returning t.id`,
    [workflowId],
  );
  return rows.length > 0;
}

/** Whether any task of a workflow's whole plans has come to something for which nobody vouches. */
export async function isPlanUntrusted(tx: Tx, workflowId: string): Promise<boolean> {
  const rows = await tx.query(
    `select from tasks t join runs r on r.id = t.run_id
     where t.workflow_id = $1 and not t.is_early and t.status = 'completed' and r.trust = 'untrusted' limit 1`,
    [workflowId],
  );
  return rows.length > 0;
}

/** What a task has come to, as those read it that depend on it. */
export interface InputRow {
  id: string;
  name: string;
  /** Null where there is no answer, or none that is kept. */
  content: StoredBlock[] | null;
  /** Nobody vouches for it. */
  is_untrusted: boolean;
  /** It was there, and is gone with its run. */
  is_erased: boolean;
}

const INPUTS = `select t.id, t.name, m.content, coalesce(t.status = 'completed' and r.trust = 'untrusted', false) as is_untrusted,
    t.status = 'completed' and (r.id is null or r.erased_at is not null) as is_erased
  from tasks t left join runs r on r.id = t.run_id
    left join messages m on m.lineage = r.lineage and m.ordinal = r.output_ordinal and r.erased_at is null`;

/** These tasks as others depend on them. */
export async function readInputs(tx: Tx, ids: readonly string[]): Promise<InputRow[]> {
  return ids.length === 0 ? [] : tx.query<InputRow>(`${INPUTS} where t.id = any($1::uuid[])`, [ids]);
}

/** The inputs of those tasks that `listReadyTasks` lists under the same limit. */
export async function readReadyInputs(tx: Tx, workflowId: string, limit: number): Promise<InputRow[]> {
  return tx.query<InputRow>(
    `${INPUTS} join (select distinct unnest(d.dependencies) as id from (select dependencies ${READY}) d) i on i.id = t.id`,
    [workflowId, limit],
  );
}

/** Tasks of a workflow ($1) whose inputs are all there, those first that start first, so many at most ($2). */
export const READY = `from tasks where workflow_id = $1 and open_inputs = 0 and status in ('pending', 'awaiting_handoff')
  order by deadline, path desc, place limit $2`;

/** Changes how long the chains are that wait for tasks. */
export async function changePaths(tx: Tx, paths: readonly { id: string; path: number }[]): Promise<void> {
  if (paths.length === 0) return;
  await tx.query(
    `update tasks t set path = p.path from jsonb_to_recordset($1::jsonb) as p (id uuid, path integer) where t.id = p.id`,
    [JSON.stringify(paths)],
  );
}

/** Tasks by what their paths follow from. */
export async function listPaths(
  tx: Tx,
  workflowId: string,
): Promise<{ id: string; dependencies: string[]; path: number }[]> {
  return tx.query(
    `select id, dependencies, path from tasks where workflow_id = $1 and not (is_early and status = 'cancelled')`,
    [workflowId],
  );
}
