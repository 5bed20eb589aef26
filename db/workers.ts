/** Agents that can be given tasks, with the data for matching, but without prompts, however many there are. */
import type { AgentStatus } from '../core/agent-lifecycle.ts';
import type { AgentDefinition } from '../core/definition.ts';
import { LIMITS } from '../core/limits.ts';
import { AGENT_STATUS, AGENT_TABLES, hasStatus } from './agents.ts';
import type { Tx } from './database.ts';
import { allHold } from './query-builder.ts';

interface WorkerHealth {
  success_rate_7d?: number;
  avg_latency_ms?: number;
  avg_tokens_per_task?: number;
}

export interface WorkerRow {
  id: string;
  status: AgentStatus;
  definition: Pick<
    AgentDefinition,
    'name' | 'description' | 'autonomy_level' | 'capabilities' | 'constraints' | 'health'
  >;
  /** Number of its current tasks. */
  running: number;
  /** Figures from its runs of the last seven days. */
  health: WorkerHealth;
}

export interface WorkerFilter {
  workspaceId: string;
  /** Agents must have at least one skill of each list. */
  skills: readonly (readonly string[])[];
  ids?: readonly string[] | undefined;
  /** Default: those that can be given a task. */
  statuses?: readonly AgentStatus[] | undefined;
  /** Instead, agents that cannot get a task now, but later: offline or suspended ones. */
  isAway?: true | undefined;
  /** Leaves out health figures, which are costly to sum up, if agents are not compared. */
  isHealthless?: true;
  /** Of agents of which nothing is known that makes one better than another, only so many. */
  unknown?: number | undefined;
}

const RATES = `jsonb_strip_nulls(jsonb_build_object('success_rate_7d', h.done::float8 / nullif(h.runs, 0),
  'avg_latency_ms', round(h.ms / nullif(h.runs, 0)), 'avg_tokens_per_task', round(h.tokens / nullif(h.runs, 0))))`;

/** From daily sums, and runs not included there yet. */
const HEALTH = `
  select agent_id, sum(count) as runs, sum(count) filter (where name = 'completed') as done, sum(duration_ms) as ms, sum(tokens) as tokens
  from (
    select agent_id, name, count, duration_ms, tokens_in + tokens_out as tokens from usage_daily
      where workspace_id = $1 and day > current_date - 7 and kind = 'run' and name in ('completed', 'failed') and ($3::uuid[] is null or agent_id = any($3))
    union all
    select agent_id, status::text, 1, extract(epoch from completed_at - coalesce(started_at, created_at)) * 1000, tokens_in + tokens_out from runs
      where workspace_id = $1 and not rolled_up and status in ('completed', 'failed') and id > uuid_floor(current_date - 7)
        and ($3::uuid[] is null or agent_id = any($3))) ended
  group by agent_id`;

const NO_HEALTH = `select null::uuid as agent_id, 0::numeric as runs, 0::numeric as done, 0::numeric as ms, 0::numeric as tokens where false`;

const AWAY = `((${AGENT_STATUS}) = 'offline' or (${AGENT_STATUS}) = any($2) and a.suspended_at is not null)`;

/** Agents that can be given a task; a busy one may have room for another. */
const TAKING: readonly AgentStatus[] = ['active', 'idle', 'busy'];

const RUNNING = `select assigned_agent_id as agent_id, count(*)::int as running from tasks
  where status in ('assigned', 'in_progress') and assigned_agent_id is not null group by 1`;

/** Whose runs, tasks or own words tell how good they are; of any other version, too, which does no harm. */
const KNOWN = `select agent_id from h union select agent_id from t union
  select k.agent_id from agent_versions k where k.definition->'health' is not null`;

/** Agents of a workspace that take tasks, oldest first; at most `LIMITS.candidateAgents`. */
export async function listWorkers(
  tx: Tx,
  { workspaceId, skills, ids, statuses = TAKING, isAway, isHealthless, unknown }: WorkerFilter,
): Promise<WorkerRow[]> {
  const conditions = skills.map(
    (_, index) => `a.id in (select k.agent_id from agent_skills k where k.name = any($${index + 4}))`,
  );
  const takes = `a.workspace_id = $1 and ${isAway ? AWAY : `${hasStatus(statuses, '$2')} and a.suspended_at is null`}
    and v.definition->'is_active' is distinct from 'false'::jsonb and ($3::uuid[] is null or a.id = any($3))
    ${conditions.length > 0 ? `and ${allHold(conditions)}` : ''}`;
  const first = `, known as materialized (${KNOWN}), unknown as materialized (select a.id from ${AGENT_TABLES}
    where ${takes} and a.id not in (select agent_id from known) order by a.id limit ${unknown ?? 0})`;
  return tx.query<WorkerRow>(
    `with h as (${isHealthless ? NO_HEALTH : HEALTH}), t as (${RUNNING})${unknown === undefined ? '' : first}
     select a.id, ${AGENT_STATUS} as status, coalesce(t.running, 0) as running, coalesce(${RATES}, '{}') as health,
       jsonb_strip_nulls(jsonb_build_object('name', a.name, 'description', v.definition->'description',
         'autonomy_level', v.definition->'autonomy_level', 'capabilities', v.definition->'capabilities', 'constraints', v.definition->'constraints',
         'health', v.definition->'health')) as definition
     from ${AGENT_TABLES} left join h on h.agent_id = a.id left join t on t.agent_id = a.id
     where ${takes} ${unknown === undefined ? '' : 'and a.id in (select agent_id from known union all select id from unknown)'}
     order by a.id limit ${LIMITS.candidateAgents}`,
    [workspaceId, statuses, ids ?? null, ...skills],
  );
}

/** The agents of a workspace that `listWorkers` finds, without a look into their definitions. */
const WITHOUT_DEFINITIONS = (statuses: readonly AgentStatus[]) =>
  `a.workspace_id = $1 and ${hasStatus(statuses, '$2')} and a.suspended_at is null and not exists (select from agent_versions v
     where v.agent_id = a.id and v.version = a.current_version and v.definition->'is_active' = 'false'::jsonb)`;

/** How many agents of a workspace `listWorkers` finds, whatever their skills. */
export async function countWorkers(
  tx: Tx,
  { workspaceId, statuses }: { workspaceId: string; statuses: readonly AgentStatus[] },
): Promise<number> {
  const [row] = await tx.query<{ count: number }>(
    `select least(count(*), ${LIMITS.candidateAgents})::int as count from agents a where ${WITHOUT_DEFINITIONS(statuses)}`,
    [workspaceId, statuses],
  );
  return row?.count ?? 0;
}

/** Skills of those that `listWorkers` finds, among these agents or of the whole workspace, in the order of their names. */
export async function listWorkerSkills(
  tx: Tx,
  { workspaceId, ids, limit }: Pick<WorkerFilter, 'workspaceId' | 'ids'> & { limit: number },
): Promise<string[]> {
  const rows = await tx.query<{ name: string }>(
    `select distinct k.name collate "C" as name from agents a join agent_skills k on k.agent_id = a.id
     where ${WITHOUT_DEFINITIONS(TAKING)} and ($3::uuid[] is null or a.id = any($3)) order by 1 limit $4`,
    [workspaceId, TAKING, ids ?? null, limit],
  );
  return rows.map(({ name }) => name);
}

/** When each of these agents last sent a heartbeat or worked. */
export async function readLastActive(tx: Tx, ids: readonly string[]): Promise<Map<string, Date>> {
  const rows = await tx.query<{ id: string; at: Date | null }>(
    `select a.id, greatest(a.last_heartbeat_at, (select r.updated_at from runs r where r.agent_id = a.id order by r.id desc limit 1)) as at
     from agents a where a.id = any($1::uuid[])`,
    [ids],
  );
  return new Map(rows.flatMap(({ id, at }) => (at ? [[id, at] as const] : [])));
}
