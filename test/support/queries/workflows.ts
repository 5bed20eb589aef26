/** Tasks of workflows, as tests read and change them. */
import { row, rowsAsOwner, tamper, type Owner, type Tenant } from './access.ts';

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

/** As if a workflow had so many more tasks, all of them done, by the child of one of its own. */
export function addDoneTasks(owner: Owner, workflow: string, count: number): Promise<void> {
  return tamper(
    owner,
    `insert into tasks (id, tenant_id, workspace_id, workflow_id, name, place, description, requirements, dependencies, status, run_id)
     select gen_random_uuid(), t.tenant_id, t.workspace_id, t.workflow_id, 'more-' || n, 100 + n, 'More.', '{}', '{}', 'completed', t.run_id
     from (select * from tasks where workflow_id = $1 and run_id is not null order by place limit 1) t, generate_series(1, $2::int) n`,
    workflow,
    count,
  );
}

/** What Postgres does within a minute for a table that has grown. */
export async function analyzeTasks({ context }: Pick<Owner, 'context'>): Promise<void> {
  await rowsAsOwner(context.db, 'analyze tasks');
}

/** As a process of an older build left a workflow that has ended: one task more in progress, whose child is done, and one that waits. */
export function leaveTasksOpen(owner: Owner, workflow: string): Promise<void> {
  return tamper(
    owner,
    `insert into tasks (id, tenant_id, workspace_id, workflow_id, name, place, description, requirements, dependencies, open_inputs,
       assigned_agent_id, status, run_id)
     select gen_random_uuid(), t.tenant_id, t.workspace_id, t.workflow_id, n.name, 100, 'More.', '{}', '{}', 0, t.assigned_agent_id, n.status,
       case when n.status = 'in_progress' then t.run_id end
     from (select * from tasks where workflow_id = $1 order by place limit 1) t, (values ('begun', 'in_progress'), ('new', 'pending')) n (name, status)`,
    workflow,
  );
}

/** As if a workflow had been begun before it was noted whether its subtasks are votes. */
export function forgetVotes(owner: Owner, workflow: string): Promise<void> {
  return tamper(owner, `update workflows set settings = settings - 'by_vote' where id = $1`, workflow);
}
