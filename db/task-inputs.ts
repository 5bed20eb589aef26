/** Inputs that a workflow's tasks wait for, counted in their rows, so that startable tasks are found without reading all. */
import type { StoredBlock } from '../core/content.ts';
import type { Tx } from './database.ts';

/** Counts the inputs that new tasks wait for, and the tasks that wait for them. */
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

/** Recounts inputs of a workflow's tasks; returns whether a count was wrong. */
export async function recountInputs(tx: Tx, workflowId: string): Promise<boolean> {
  const rows = await tx.query(
    `update tasks t set open_inputs = ${OPEN_INPUTS} where t.workflow_id = $1 and t.status in ('pending', 'awaiting_handoff')
       and t.open_inputs is distinct from ${OPEN_INPUTS} returning t.id`,
    [workflowId],
  );
  return rows.length > 0;
}

/** Whether any task of a workflow's complete plans has an untrusted result. */
export async function isPlanUntrusted(tx: Tx, workflowId: string): Promise<boolean> {
  const rows = await tx.query(
    `select from tasks t join runs r on r.id = t.run_id
     where t.workflow_id = $1 and not t.is_early and t.status = 'completed' and r.trust = 'untrusted' limit 1`,
    [workflowId],
  );
  return rows.length > 0;
}

/** The result of a task, for tasks that depend on it. */
export interface InputRow {
  id: string;
  name: string;
  /** Null if there is no answer, or it is not kept. */
  content: StoredBlock[] | null;
  /** Nobody vouches for it. */
  is_untrusted: boolean;
  /** The answer was erased with its run. */
  is_erased: boolean;
}

const INPUTS = `select t.id, t.name, m.content, coalesce(t.status = 'completed' and r.trust = 'untrusted', false) as is_untrusted,
    t.status = 'completed' and (r.id is null or r.erased_at is not null) as is_erased
  from tasks t left join runs r on r.id = t.run_id
    left join messages m on m.lineage = r.lineage and m.ordinal = r.output_ordinal and r.erased_at is null`;

/** Results of these tasks. */
export async function readInputs(tx: Tx, ids: readonly string[]): Promise<InputRow[]> {
  return ids.length === 0 ? [] : tx.query<InputRow>(`${INPUTS} where t.id = any($1::uuid[])`, [ids]);
}

/** Inputs of the tasks that `listReadyTasks` returns for the same limit. */
export async function readReadyInputs(tx: Tx, workflowId: string, limit: number): Promise<InputRow[]> {
  return tx.query<InputRow>(
    `${INPUTS} join (select distinct unnest(d.dependencies) as id from (select dependencies ${READY}) d) i on i.id = t.id`,
    [workflowId, limit],
  );
}

/** Tasks of a workflow ($1) whose inputs are all there, in starting order, up to a limit ($2). */
export const READY = `from tasks where workflow_id = $1 and open_inputs = 0 and status in ('pending', 'awaiting_handoff')
  order by deadline, path desc, place limit $2`;

/** Updates the lengths of chains of dependent tasks. */
export async function changePaths(tx: Tx, paths: readonly { id: string; path: number }[]): Promise<void> {
  if (paths.length === 0) return;
  await tx.query(
    `update tasks t set path = p.path from jsonb_to_recordset($1::jsonb) as p (id uuid, path integer) where t.id = p.id`,
    [JSON.stringify(paths)],
  );
}

/** Tasks with the data from which paths are computed. */
export async function listPaths(
  tx: Tx,
  workflowId: string,
): Promise<{ id: string; dependencies: string[]; path: number }[]> {
  return tx.query(
    `select id, dependencies, path from tasks where workflow_id = $1 and not (is_early and status = 'cancelled')`,
    [workflowId],
  );
}
