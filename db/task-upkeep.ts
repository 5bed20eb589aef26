/** Finds work of maintenance among tasks of all tenants. Every query is bounded. */
import type { Database } from './database.ts';
import type { LostFilter } from './maintenance.ts';

interface LostJoin {
  tenant_id: string;
  /** Id of the task or call. */
  id: string;
  /** The run that must look at it: a workflow, or the delegating run. */
  workflow_id: string;
  run_id: string;
}

/**
 * Open tasks whose child ended a while ago, even if nobody waits for them any more, those left open by a workflow that ended a
 * while ago, and calls that wait for a child that has ended or never began: their parent was not told. What is open is looked up
 * first, and then the workflow of each: in another order, all tasks or all runs could be read.
 */
export async function listLostJoins(db: Database, filter: LostFilter): Promise<LostJoin[]> {
  return db.asMaintenance((tx) =>
    tx.query<LostJoin>(
      `with open as materialized (
         select tenant_id, id, workflow_id, run_id from tasks
         where status in ('assigned', 'in_progress') and id > $2 and ($4::uuid is null or tenant_id = $4)
         union all
         select tenant_id, id, workflow_id, run_id from tasks
         where status in ('pending', 'awaiting_handoff') and open_inputs = 0 and id > $2 and ($4::uuid is null or tenant_id = $4))
       select tenant_id, id, workflow_id, run_id from (
         select t.tenant_id, t.id, t.workflow_id, t.run_id from tasks t join runs r on r.id = t.run_id
         where t.status in ('assigned', 'in_progress') and t.id > $2 and ($4::uuid is null or t.tenant_id = $4)
           and r.status in ('completed', 'failed', 'cancelled') and r.updated_at < clock_timestamp() - $1 * interval '1 ms'
           and exists (select from runs w where w.id = t.workflow_id and w.status not in ('completed', 'failed', 'cancelled'))
         union all
         select t.tenant_id, t.id, t.workflow_id, coalesce(t.run_id, t.id) as run_id from open t cross join lateral (
           select from runs w where w.id = t.workflow_id and w.status in ('completed', 'failed', 'cancelled')
             and w.updated_at < clock_timestamp() - $1 * interval '1 ms' limit 1) w
         union all
         select t.tenant_id, t.id, t.parent_run_id as workflow_id, t.run_id from tasks t join runs r on r.id = t.run_id
         where t.status in ('assigned', 'in_progress') and t.parent_run_id is not null and t.id > $2
           and ($4::uuid is null or t.tenant_id = $4)
           and r.status in ('completed', 'failed', 'cancelled') and r.updated_at < clock_timestamp() - $1 * interval '1 ms'
           and not exists (select from waits w where w.id = t.id and w.closed_at is null)
         union all
         select w.tenant_id, w.id, w.run_id as workflow_id, coalesce(c.id, w.id) as run_id from waits w
           left join runs c on c.parent_run_id = w.run_id and c.parent_task_id = w.id
         where w.type = 'child' and w.closed_at is null and w.id > $2 and ($4::uuid is null or w.tenant_id = $4)
           and (c.id is null or c.status in ('completed', 'failed', 'cancelled'))
           and coalesce(c.updated_at, w.created_at) < clock_timestamp() - $1 * interval '1 ms') lost
       order by id limit $3`,
      [filter.quietMs, filter.after, filter.limit, filter.tenantId ?? null],
    ),
  );
}

/**
 * Of these children, those whose workflow still expects jobs of children: another child is working, or the workflow changed
 * within `quietMs`.
 */
export async function listAwaitedChildren(
  db: Database,
  { childIds, quietMs }: { childIds: readonly string[]; quietMs: number },
): Promise<string[]> {
  if (childIds.length === 0) return [];
  const rows = await db.asMaintenance((tx) =>
    tx.query<{ id: string }>(
      `select c.id from runs c join runs w on w.id = c.parent_run_id
       where c.id = any($1::uuid[]) and (w.updated_at > clock_timestamp() - $2 * interval '1 ms'
         or w.status not in ('completed', 'failed', 'cancelled') and exists (
           select from tasks t join runs r on r.id = t.run_id where t.workflow_id = w.id and t.status in ('assigned', 'in_progress')
             and not r.dormant and r.status not in ('completed', 'failed', 'cancelled')))`,
      [childIds, quietMs],
    ),
  );
  return rows.map(({ id }) => id);
}

/** Open tasks of unfinished workflows whose deadline has passed. */
export async function listDueTasks(
  db: Database,
  limit: number,
): Promise<{ tenant_id: string; id: string; workflow_id: string }[]> {
  return db.asMaintenance((tx) =>
    tx.query(
      `select t.tenant_id, t.id, t.workflow_id from tasks t
       where t.deadline < now() and t.status in ('pending', 'assigned', 'in_progress', 'awaiting_handoff')
         and exists (select from runs w where w.id = t.workflow_id and w.status not in ('completed', 'failed', 'cancelled'))
       order by t.deadline limit $1`,
      [limit],
    ),
  );
}
