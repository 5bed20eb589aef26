/** Usage of runs over days, and a tenant's waiting and current work. See `db/functions/dashboard.sql`. */
import type { Tx } from './database.ts';
import { OWN_USAGE, PURPOSES_IN_NO_RUN, type OwnUsageRow } from './own-model-calls.ts';

export interface UsageFilter {
  tenantId: string;
  workspaceId: string;
  agentId?: string | undefined;
  /** Days in UTC; `to` is exclusive. */
  from: string;
  to: string;
  /** What `key` stands for. */
  by: 'agent' | 'day' | 'all';
  kinds: readonly UsageKind[];
}

type UsageKind = 'run' | 'model' | 'tool';

export interface UsageRow {
  key: string;
  kind: UsageKind;
  /** A run status, or the name of a model or a tool. */
  name: string;
  count: number;
  failed: number;
  turns: number;
  steps: number;
  tokens_in: number;
  tokens_out: number;
  /** Sum of the known prices. */
  cost_usd: string;
  duration_ms: number;
  /** Runs or answers with no known price, or not for all of it. */
  unpriced: number;
}

/** Sums over the runs that began on these days. */
export async function readUsage(tx: Tx, filter: UsageFilter): Promise<UsageRow[]> {
  const { tenantId: tenant_id, workspaceId: workspace_id, agentId: agent_id = null, ...rest } = filter;
  return tx.query<UsageRow>('select * from read_usage($1::jsonb)', [
    JSON.stringify({ tenant_id, workspace_id, agent_id, ...rest }),
  ]);
}

/** Drover's own model calls whose usage is no run's, by purpose. */
export async function readOwnUsage(
  tx: Tx,
  { tenantId, workspaceId, agentId, from, to }: Omit<UsageFilter, 'by' | 'kinds'>,
): Promise<OwnUsageRow[]> {
  return tx.query<OwnUsageRow>(
    `select purpose, ${OWN_USAGE}
     from own_model_calls
     where tenant_id = $1 and workspace_id = $2 and (run_id is null or purpose in (${PURPOSES_IN_NO_RUN})) and state <> 'released' and ($3::uuid is null or agent_id = $3)
       and created_at >= $4::date::timestamp at time zone 'UTC' and created_at < $5::date::timestamp at time zone 'UTC'
     group by purpose order by purpose`,
    [tenantId, workspaceId, agentId ?? null, from, to],
  );
}

/** Tenants with ended runs not in the sums yet; for maintenance, across tenants. */
export async function listUnrolledTenants(tx: Tx): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(
    `select id from (select distinct tenant_id as id from runs
       where not rolled_up and status in ('completed', 'failed', 'cancelled')) t order by random()`,
  );
  return rows.map(({ id }) => id);
}

/** Adds ended runs to the sums, `most` at a time; returns how many. */
export async function rollUpUsage(tx: Tx, tenantId: string, most: number): Promise<number> {
  const [row] = await tx.query<{ rolled: number }>('select roll_up_usage($1, $2) as rolled', [tenantId, most]);
  return row?.rolled ?? 0;
}

export interface QueueState {
  queue: string;
  waiting: number;
  active: number;
  delayed: number;
  oldest_waiting_at: Date | null;
}

/** A tenant's work by queue, from the database: waiting, active, or delayed until later. */
export async function readQueueStates(tx: Tx, tenantId: string): Promise<QueueState[]> {
  return tx.query<QueueState>(
    `select 'turns' as queue, count(*) filter (where coalesce(driver_lease_expires_at, '-infinity') < clock_timestamp()) as waiting,
       count(*) filter (where driver_lease_expires_at >= clock_timestamp()) as active, 0 as delayed,
       min(updated_at) filter (where coalesce(driver_lease_expires_at, '-infinity') < clock_timestamp()) as oldest_waiting_at
     from runs where tenant_id = $1 and not rolled_up and open_turn_id is not null and not dormant
     union all
     select 'tool-calls', count(*) filter (where k.status = 'pending' and (k.retry_at is null or k.retry_at <= clock_timestamp())),
       count(*) filter (where k.status = 'running'),
       count(*) filter (where k.status = 'pending' and k.retry_at > clock_timestamp()),
       min(k.created_at) filter (where k.status = 'pending')
     from runs r join tool_calls k on k.run_id = r.id and k.mode = 'queued' and k.status in ('pending', 'running')
     where r.tenant_id = $1 and not r.rolled_up
     union all
     select 'subtasks', count(*) filter (where t.status <> 'in_progress' and t.is_free), count(*) filter (where t.status = 'in_progress'),
       count(*) filter (where t.status <> 'in_progress' and not t.is_free), min(t.created_at) filter (where t.status <> 'in_progress' and t.is_free)
     from runs r cross join lateral (
       select t.status, t.created_at, not exists (
           select from tasks d where d.id = any (t.dependencies) and d.status <> 'completed') as is_free
       from tasks t where t.workflow_id = r.id and t.status in ('pending', 'assigned', 'in_progress', 'awaiting_handoff')) t
     where r.tenant_id = $1 and not r.rolled_up and r.kind = 'workflow' and r.status not in ('completed', 'failed', 'cancelled')
     union all
     select 'consolidation', count(*) filter (where due_at <= clock_timestamp()), 0, count(*) filter (where due_at > clock_timestamp()), min(due_at)
     from (select due_at from memory_extractions where tenant_id = $1 and status = 'due'
       union all select due_at from memory_checks where tenant_id = $1) due
     union all
     select 'webhooks', count(*) filter (where d.next_at <= clock_timestamp()), 0, count(*) filter (where d.next_at > clock_timestamp()),
       min(d.created_at)
     from webhooks w join webhook_deliveries d on d.webhook_id = w.id and d.status = 'pending' where w.tenant_id = $1
     union all
     select 'titles', count(*) filter (where due_at <= clock_timestamp()), 0, count(*) filter (where due_at > clock_timestamp()), min(due_at)
     from due_titles where tenant_id = $1`,
    [tenantId],
  );
}

export interface FailedTurnRow {
  id: string;
  run_id: string;
  agent_id: string;
  thread_id: string;
  error: { code: string; message: string };
  completed_at: Date;
}

/** Failed turns of a workspace, newest first; optionally after `before`, of one agent, or on certain days. */
export async function listFailedTurns(
  tx: Tx,
  page: Pick<UsageFilter, 'tenantId' | 'workspaceId' | 'agentId'> & {
    from?: string | undefined;
    to?: string | undefined;
    before?: string | undefined;
    limit: number;
    /** The index of failures by agent does not exist yet. */
    withoutIndex?: boolean;
  },
): Promise<FailedTurnRow[]> {
  const { tenantId, workspaceId, agentId, from = null, to = null, before = null, limit } = page;
  // One agent's failures have an index of their own: a shared plan would read all of the tenant's.
  const whose = page.withoutIndex ? 'r.agent_id' : 'u.failed_agent_id';
  const ofAgent = agentId === undefined ? '' : `and ${whose} = $7::uuid`;
  return tx.query<FailedTurnRow>(
    `select u.id, u.run_id, r.agent_id, r.thread_id, u.error, u.completed_at
     from turns u join runs r on r.id = u.run_id
     where u.tenant_id = $1 and u.status = 'failed' and r.workspace_id = $2 ${ofAgent}
       and ($3::date is null or u.completed_at >= $3::date::timestamp at time zone 'UTC')
       and ($4::date is null or u.completed_at < $4::date::timestamp at time zone 'UTC')
       and ($5::uuid is null or (u.completed_at, u.id) < (select b.completed_at, b.id from turns b where b.id = $5))
     order by u.completed_at desc, u.id desc limit $6`,
    [tenantId, workspaceId, from, to, before, limit, ...(agentId === undefined ? [] : [agentId])],
  );
}

/** Counts what waits for people: open approvals, and runs with a question. */
export async function countWaiting(
  tx: Tx,
  { tenantId, workspaceId, agentId }: Pick<UsageFilter, 'tenantId' | 'workspaceId' | 'agentId'>,
): Promise<{ approvals: number; questions: number }> {
  const [row] = await tx.query<{ approvals: number; questions: number }>(
    `select (select count(*) from approvals a left join runs r on r.id = a.run_id
         where a.tenant_id = $1 and a.status = 'pending' and coalesce(r.workspace_id, a.workspace_id) = $2
           and ($3::uuid is null or coalesce(r.agent_id::text, a.arguments->>'agent_id') = $3::text)) as approvals,
       (select count(*) from runs r where r.tenant_id = $1 and not r.rolled_up and r.workspace_id = $2
         and ($3::uuid is null or r.agent_id = $3)
         and r.open_turn_id is not null
         -- An approval may be open beside it, and other calls of the same answer under way.
         and r.status in ('awaiting_human', 'awaiting_tool')
         and exists (select from waits w where w.run_id = r.id and w.type = 'user' and w.closed_at is null)) as questions`,
    [tenantId, workspaceId, agentId ?? null],
  );
  return row ?? { approvals: 0, questions: 0 };
}
