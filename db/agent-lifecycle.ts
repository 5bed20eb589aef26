/** Heartbeats of agents, and agents of all tenants that maintenance handles. All times are database time. */
import type { AgentStatus } from '../core/agent-lifecycle.ts';
import type { AgentDefinition } from '../core/definition.ts';
import type { Database, Tx } from './database.ts';
import { asColumns } from './query-builder.ts';

/** The state of an agent that a heartbeat depends on. */
interface BeatingAgent {
  id: string;
  status: AgentStatus;
  /** Consecutive heartbeats since it lapsed. */
  heartbeats: number;
  /** Whether its last heartbeat is within the timeout. */
  is_recent: boolean;
  /** Number of its current tasks. */
  tasks: number;
}

/** The agent, even if deprecated, locked until the transaction ends. */
export async function lockBeating(
  tx: Tx,
  of: { id: string; workspaceId: string; timeoutMs: number },
): Promise<BeatingAgent | undefined> {
  const [row] = await tx.query<BeatingAgent>(
    `select a.id, a.status, a.heartbeats,
       coalesce(a.last_heartbeat_at > clock_timestamp() - $3 * interval '1 ms', false) as is_recent,
       (select count(*)::int from tasks t where t.assigned_agent_id = a.id and t.status in ('assigned', 'in_progress')) as tasks
     from agents a where a.id = $1 and a.workspace_id = $2 for update of a`,
    [of.id, of.workspaceId, of.timeoutMs],
  );
  return row;
}

/** Records a heartbeat; returns its time. */
export async function noteHeartbeat(
  tx: Tx,
  beat: { id: string; status: AgentStatus; heartbeats: number },
): Promise<Date> {
  const [row] = await tx.query<{ at: Date }>(
    `update agents set last_heartbeat_at = clock_timestamp(), heartbeats = $3, status = $2,
       offline_since = case when $2 = 'offline' then offline_since end where id = $1 returning last_heartbeat_at as at`,
    [beat.id, beat.status, beat.heartbeats],
  );
  if (!row) throw new Error('a locked agent is gone');
  return row.at;
}

/** Marks an agent that gets a task as no longer idle. */
export async function noteAssigned(tx: Tx, agentId: string): Promise<void> {
  await tx.query(`update agents set status = 'active' where id = $1 and status = 'idle'`, [agentId]);
}

const CURRENT = `from tasks t where t.status in ('assigned', 'in_progress')`;

/** Whether the current task `t` only waits for what its run has delegated. */
const IS_LENT = `exists (select from tasks d where d.parent_run_id = t.run_id and d.status in ('pending', 'assigned', 'in_progress'))`;

/**
 * Counts an agent's current tasks, and keeps others from assigning any until this transaction ends. Undefined if somebody else
 * is assigning: waiting for each other could deadlock. For a delegated task, without those that only wait for what they have
 * delegated: they might wait for this very task.
 */
export async function holdTaskPlaces(
  tx: Tx,
  agentId: string,
  { isDelegated = false } = {},
): Promise<number | undefined> {
  // Two statements, sent together: the second sees what the previous lock holder committed.
  const [[lock], [row]] = await Promise.all([
    tx.query<{ held: boolean }>(
      `select pg_try_advisory_xact_lock(hashtextextended('drover:tasks-of:' || $1, 0)) as held`,
      [agentId],
    ),
    tx.query<{ running: number }>(
      `select count(*)::int as running ${CURRENT} and t.assigned_agent_id = $1 and not ($2::boolean and ${IS_LENT})`,
      [agentId, isDelegated],
    ),
  ]);
  return lock?.held ? (row?.running ?? 0) : undefined;
}

/** How many of these agents' current tasks only wait for what they have delegated. */
export async function countLentPlaces(tx: Tx, agentIds: readonly string[]): Promise<Map<string, number>> {
  const rows = await tx.query<{ id: string; lent: number }>(
    `select t.assigned_agent_id as id, count(*)::int as lent ${CURRENT} and t.assigned_agent_id = any($1::uuid[]) and ${IS_LENT}
     group by 1`,
    [agentIds],
  );
  return new Map(rows.map(({ id, lent }) => [id, lent]));
}

/** An agent for which a task waits. */
interface AwaitedAgent {
  task_id: string;
  status: AgentStatus;
  suspended: boolean;
  definition: Pick<AgentDefinition, 'name' | 'is_active' | 'constraints'>;
  /** Number of its current tasks, as they count for this one. */
  running: number;
}

/** Of these tasks, those that could begin and that one agent alone does, with that agent. */
export async function listAwaitedAgents(tx: Tx, taskIds: readonly string[]): Promise<AwaitedAgent[]> {
  return tx.query<AwaitedAgent>(
    `select p.id as task_id, a.status, a.suspended_at is not null as suspended, jsonb_strip_nulls(jsonb_build_object('name', a.name,
       'is_active', v.definition->'is_active', 'constraints', v.definition->'constraints')) as definition,
       (select count(*)::int ${CURRENT} and t.assigned_agent_id = a.id and not (p.workflow_id is null and ${IS_LENT})) as running
     from tasks p left join workflows w on w.id = p.workflow_id
       ${asColumns(`coalesce(p.agent_id, case when w.team_id is null and coalesce(p.requirements->'required_capabilities', '[]') = '[]'
         then w.agent_id end) as agent`)} one
       join agents a on a.id = one.agent join agent_versions v on v.agent_id = a.id and v.version = a.current_version
     where p.id = any($1::uuid[]) and p.status = 'pending' and coalesce(p.open_inputs, 0) = 0`,
    [taskIds],
  );
}

interface AgentRef {
  tenant_id: string;
  id: string;
}

/** Agents whose last heartbeat is too old. Tenants take turns. */
export async function listLapsedAgents(
  db: Database,
  { timeoutMs, limit }: { timeoutMs: number; limit: number },
): Promise<AgentRef[]> {
  return db.asMaintenance((tx) =>
    tx.query(
      `select tenant_id, id from (
         select tenant_id, id, last_heartbeat_at, row_number() over (partition by tenant_id order by last_heartbeat_at) as place
         from agents where last_heartbeat_at < now() - $1 * interval '1 ms' and status in ('active', 'idle')) a
       order by place, last_heartbeat_at limit $2`,
      [timeoutMs, limit],
    ),
  );
}

/** Marks an agent offline; false if it sent a heartbeat meanwhile. */
export async function markOffline(tx: Tx, id: string, timeoutMs: number): Promise<boolean> {
  const rows = await tx.query(
    `update agents set status = 'offline', offline_since = clock_timestamp(), heartbeats = 0
     where id = $1 and status in ('active', 'idle') and last_heartbeat_at < clock_timestamp() - $2 * interval '1 ms' returning id`,
    [id, timeoutMs],
  );
  return rows.length > 0;
}

/** Agents offline for so long that they are not expected back. */
export async function listLostAgents(
  db: Database,
  { offlineSeconds, limit }: { offlineSeconds: number; limit: number },
): Promise<AgentRef[]> {
  return db.asMaintenance((tx) =>
    tx.query(
      `select tenant_id, id from (
         select tenant_id, id, offline_since, row_number() over (partition by tenant_id order by offline_since) as place
         from agents where status = 'offline' and offline_since < now() - $1 * interval '1 second') a
       order by place, offline_since limit $2`,
      [offlineSeconds, limit],
    ),
  );
}

/** Deprecates an agent that is still offline; false if it is not. */
export async function deprecateLost(tx: Tx, id: string, offlineSeconds: number): Promise<boolean> {
  const rows = await tx.query(
    `update agents set status = 'deprecated', updated_at = now() where id = $1 and status = 'offline'
       and offline_since < clock_timestamp() - $2 * interval '1 second' returning id`,
    [id, offlineSeconds],
  );
  return rows.length > 0;
}

/** Workflows with a current task of an offline agent. */
export async function listStrandedWorkflows(
  db: Database,
  limit: number,
): Promise<{ tenant_id: string; workflow_id: string }[]> {
  return db.asMaintenance((tx) =>
    tx.query(
      `select tenant_id, workflow_id from (
         select t.tenant_id, t.workflow_id, row_number() over (partition by t.tenant_id order by t.workflow_id) as place
         from agents a join tasks t on t.assigned_agent_id = a.id and t.status in ('assigned', 'in_progress')
         where a.status = 'offline'
           and exists (select from runs w where w.id = t.workflow_id and w.status not in ('completed', 'failed', 'cancelled'))
         group by t.tenant_id, t.workflow_id) w
       order by place, workflow_id limit $1`,
      [limit],
    ),
  );
}
