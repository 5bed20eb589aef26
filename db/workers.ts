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
  /** Default: those that can be given a task; a busy one may have room for another. */
  statuses?: readonly AgentStatus[] | undefined;
  /** Instead, agents that cannot get a task now, but later: offline or suspended ones. */
  isAway?: true | undefined;
  /** Leaves out health figures, which are costly to sum up, if agents are not compared. */
  isHealthless?: true;
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

/** Agents of a workspace that take tasks, oldest first; at most `LIMITS.candidateAgents`. */
export async function listWorkers(
  tx: Tx,
  { workspaceId, skills, ids, statuses = ['active', 'idle', 'busy'], isAway, isHealthless }: WorkerFilter,
): Promise<WorkerRow[]> {
  const conditions = skills.map(
    (_, index) => `a.id in (select k.agent_id from agent_skills k where k.name = any($${index + 4}))`,
  );
  return tx.query<WorkerRow>(
    `with h as (${isHealthless ? NO_HEALTH : HEALTH}),
       t as (select assigned_agent_id as agent_id, count(*)::int as running from tasks
         where status in ('assigned', 'in_progress') and assigned_agent_id is not null group by 1)
     select a.id, ${AGENT_STATUS} as status, coalesce(t.running, 0) as running, coalesce(${RATES}, '{}') as health,
       jsonb_strip_nulls(jsonb_build_object('name', a.name, 'description', v.definition->'description',
         'autonomy_level', v.definition->'autonomy_level', 'capabilities', v.definition->'capabilities', 'constraints', v.definition->'constraints',
         'health', v.definition->'health')) as definition
     from ${AGENT_TABLES} left join h on h.agent_id = a.id left join t on t.agent_id = a.id
     where a.workspace_id = $1 and ${isAway ? AWAY : `${hasStatus(statuses, '$2')} and a.suspended_at is null`}
       and v.definition->'is_active' is distinct from 'false'::jsonb and ($3::uuid[] is null or a.id = any($3))
       ${conditions.length > 0 ? `and ${allHold(conditions)}` : ''}
     order by a.id limit ${LIMITS.candidateAgents}`,
    [workspaceId, statuses, ids ?? null, ...skills],
  );
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
