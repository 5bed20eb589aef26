/** Delegations of runs: each is an open wait of type `child`. Call, wait and the child's task share one id. */
import type { StoredBlock } from '../core/content.ts';
import type { RunStatus } from '../core/events.ts';
import type { BriefedRun, DelegatedWork } from '../core/brief.ts';
import type { Trust } from '../core/origin.ts';
import type { Tx } from './database.ts';
import type { TaskStatus } from './tasks.ts';

interface Problem {
  code: string;
  message: string;
}

/** A call that waits for a child, and the child's state: null until it exists. */
export interface Delegation {
  /** The call's id. */
  id: string;
  turn_id: string;
  /** Validated by the tool's schema when the call was requested. */
  arguments: DelegatedWork;
  /** Of the turn that delegates; null if the call has none. */
  traceparent: string | null;
  /** Status of the task; null if no agent was looked for yet. */
  task_status: TaskStatus | null;
  child: {
    id: string;
    agent_id: string;
    status: RunStatus;
    stop_reason: string | null;
    error: Problem | null;
    tokens: number;
    latency_ms: number | null;
    output: StoredBlock[] | null;
    /** `untrusted` if it had read content that nobody vouches for, otherwise null. */
    trust: Trust | null;
  } | null;
}

/** Open delegations of a run, in order of their calls. The caller must have locked the run's row. */
export async function listDelegations(tx: Tx, runId: string): Promise<Delegation[]> {
  return tx.query<Delegation>(
    `select w.id, w.turn_id, k.arguments, k.traceparent, t.status as task_status,
       case when c.id is not null then jsonb_build_object('id', c.id, 'agent_id', c.agent_id, 'status', c.status,
         'stop_reason', c.stop_reason, 'error', c.error, 'tokens', c.tokens_in + c.tokens_out, 'output', m.content, 'trust', c.trust,
         'latency_ms', round(extract(epoch from c.completed_at - c.created_at) * 1000)) end as child
     from waits w join tool_calls k on k.id = w.id
       left join tasks t on t.id = w.id
       left join runs c on c.parent_run_id = w.run_id and c.parent_task_id = w.id
       left join messages m on m.lineage = c.lineage and m.ordinal = c.output_ordinal and c.erased_at is null
     where w.run_id = $1 and w.closed_at is null and w.type = 'child' and k.status = 'running'
     order by k.step, k.place`,
    [runId],
  );
}

/** Unfinished children whose end a run no longer awaits. */
export async function listOrphans(tx: Tx, runId: string): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(
    `select c.id from runs c join waits w on w.id = c.parent_task_id and w.type = 'child'
     where c.parent_run_id = $1 and c.status not in ('completed', 'failed', 'cancelled') and w.closed_at is not null
     order by c.id`,
    [runId],
  );
  return rows.map(({ id }) => id);
}

/**
 * Open tasks that a run delegated and no longer awaits, since its turn was interrupted or it ended, with children that are
 * still running.
 */
export async function listForsakenTasks(tx: Tx, runId: string): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(
    `select t.id from tasks t where t.parent_run_id = $1 and t.status in ('pending', 'assigned', 'in_progress')
       and not exists (select from waits w where w.id = t.id and w.closed_at is null) order by t.id`,
    [runId],
  );
  return rows.map(({ id }) => id);
}

/** The briefs of a run and its ancestors, bottom up: a task, a delegation, or a message. */
export async function listBriefs(tx: Tx, runId: string): Promise<BriefedRun[]> {
  return tx.query<BriefedRun>(
    `with recursive above as (
       select id, parent_run_id, parent_task_id, depth from runs where id = $1 union all
       select r.id, r.parent_run_id, r.parent_task_id, r.depth from above a join runs r on r.id = a.parent_run_id)
     select a.id as run_id, coalesce(t.description, k.arguments->>'description', n.input->>'message', '') as brief
     from above a left join tasks t on t.id = a.parent_task_id
       left join tool_calls k on k.id = a.parent_task_id
       left join lateral (select input from turns where run_id = a.id order by number desc limit 1) n on true
     order by a.depth desc`,
    [runId],
  );
}

/** The team whose workflow a run belongs to, at any depth; undefined if none. */
export async function findTeamOfRun(tx: Tx, runId: string): Promise<string | undefined> {
  const [row] = await tx.query<{ team_id: string }>(
    `with recursive above as (
       select id, parent_run_id from runs where id = $1 union all
       select r.id, r.parent_run_id from above a join runs r on r.id = a.parent_run_id)
     select w.team_id from above a join workflows w on w.id = a.id where w.team_id is not null`,
    [runId],
  );
  return row?.team_id;
}
