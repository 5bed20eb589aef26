/** Tasks of workflows, as tests read and change them. */
import { row, tamper, type Owner, type Tenant } from './access.ts';

/** Rows that say of every task that it waits for seven others. */
export function spoilOpenInputs(owner: Owner, workflow: string): Promise<void> {
  return tamper(owner, 'update tasks set open_inputs = 7 where workflow_id = $1', workflow);
}

/** As if two hours had passed since the tasks of a workflow were made. */
export function ageTasks(owner: Owner, workflow: string): Promise<void> {
  return tamper(
    owner,
    `update tasks set created_at = created_at - interval '2 h', asked_at = asked_at - interval '2 h',
       deadline = deadline - interval '2 h' where workflow_id = $1`,
    workflow,
  );
}

/** All that is stored of a workflow and its tasks, as text. */
export async function textOfWorkflow(tenant: Tenant, workflow: string): Promise<string> {
  const sql = `select concat((select json_agg(t) from tasks t where workflow_id = $1)::text,
    (select json_agg(w) from workflows w where id = $1)::text) as text`;
  return (await row<{ text: string }>(tenant, sql, workflow)).text;
}
