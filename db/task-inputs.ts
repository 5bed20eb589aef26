/** What the tasks of a workflow wait for, kept in their rows: so what can start next is found without reading all of them. */
import type { Tx } from './database.ts';

/** Of tasks that are new: what they wait for, and who waits for them. */
export async function countInputs(tx: Tx, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  await tx.query(
    `update tasks d set dependents = d.dependents || x.ids from (
       select i.input, array_agg(t.id) as ids from tasks t, unnest(t.dependencies) as i (input) where t.id = any($1::uuid[]) group by 1) x
     where d.id = x.input`,
    [ids],
  );
  await tx.query(`update tasks t set open_inputs = ${OPEN_INPUTS} where t.id = any($1::uuid[])`, [ids]);
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

/** Which of these tasks have come to something for which nobody vouches. */
export async function listUntrusted(tx: Tx, ids: readonly string[]): Promise<Set<string>> {
  if (ids.length === 0) return new Set();
  const rows = await tx.query<{ id: string }>(
    `select t.id from tasks t join runs r on r.id = t.run_id
     where t.id = any($1::uuid[]) and t.status = 'completed' and r.trust = 'untrusted'`,
    [ids],
  );
  return new Set(rows.map(({ id }) => id));
}

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
