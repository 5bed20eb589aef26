/** Handoffs: one row each, which says what was handed over and how far it has come. */
import type { HandoffContext, HandoffLink, HandoffStatus, Urgency } from '../core/handoff.ts';
import { resultOf, type Database, type Tx } from './database.ts';
import { VISIBLE } from './memory-spaces.ts';
import { fetchRows, selectFrom } from './query-builder.ts';
import { edgeEvent } from './run-log.ts';

/** Who takes a handoff on: the workflow of its task, or the target in the thread's next run, or in a run by itself. */
export type HandoffCarrier = 'workflow' | 'thread' | 'run';

/** That a run begins with what Drover says of a handoff: nobody else has said its first message. */
export const beginsWithHandoff = (run: string) =>
  `exists (select from handoffs h where h.target_run_id = ${run} or h.returned_run_id = ${run})`;

interface Rejection {
  code: string;
  message: string;
}

interface NewHandoff {
  id: string;
  tenant_id: string;
  workspace_id: string;
  task_id: string | null;
  workflow_id: string | null;
  source_agent_id: string;
  target_agent_id: string;
  source_run_id: string | null;
  tool_call_id: string | null;
  previous_id: string | null;
  place: number;
  carried_by: HandoffCarrier;
  reason: string;
  urgency: Urgency;
  expected_action: string | null;
  context: HandoffContext;
  schema_version: string;
  checksum: string;
  target_tokens: number;
  summary: Record<string, unknown>;
  summary_tokens: number;
  full_tokens: number;
  requested_by: string | null;
  /** Until somebody can take it on, as far as can be told. */
  pickup_ms: number;
}

export interface HandoffRow extends Omit<NewHandoff, 'pickup_ms'> {
  status: HandoffStatus;
  target_run_id: string | null;
  rejection: Rejection | null;
  returned_run_id: string | null;
  estimated_pickup: Date | null;
  created_at: Date;
  accepted_at: Date | null;
  completed_at: Date | null;
}

/** Inserts one that is initiated. */
export async function insertHandoff(tx: Tx, { pickup_ms: pickupMs, ...row }: NewHandoff): Promise<void> {
  const given = Object.keys(row);
  await tx.query(
    `insert into handoffs (${given.join(', ')}, status, estimated_pickup)
     select ${given.join(', ')}, 'initiated', clock_timestamp() + $2 * interval '1 ms' from jsonb_populate_record(null::handoffs, $1::jsonb)`,
    [JSON.stringify(row), pickupMs],
  );
}

export async function findHandoff(tx: Tx, id: string): Promise<HandoffRow | undefined> {
  const [row] = await tx.query<HandoffRow>('select * from handoffs where id = $1', [id]);
  return row;
}

/** The same, and nobody else changes it until the transaction ends. */
export async function lockHandoff(tx: Tx, id: string): Promise<HandoffRow | undefined> {
  const [row] = await tx.query<HandoffRow>('select * from handoffs where id = $1 for update', [id]);
  return row;
}

/** The handoff that a call of a tool has made. */
export async function findHandoffOfCall(tx: Tx, toolCallId: string): Promise<HandoffRow | undefined> {
  const [row] = await tx.query<HandoffRow>('select * from handoffs where tool_call_id = $1', [toolCallId]);
  return row;
}

/** Whether a handoff was made longer ago than that. */
export async function isHandoffOlder(tx: Tx, id: string, seconds: number): Promise<boolean> {
  const rows = await tx.query<{ result: boolean }>(
    `select created_at < clock_timestamp() - $2 * interval '1 second' as result from handoffs where id = $1`,
    [id, seconds],
  );
  return resultOf(rows);
}

/** The handoff whose target works in this run, where it does; locked. */
export async function lockHandoffTo(tx: Tx, runId: string): Promise<HandoffRow | undefined> {
  const [row] = await tx.query<HandoffRow>('select * from handoffs where target_run_id = $1 for update', [runId]);
  return row;
}

/** The handoff that waits until this run has ended. */
export async function findHandoffFrom(tx: Tx, runId: string): Promise<HandoffRow | undefined> {
  const [row] = await tx.query<HandoffRow>(
    `select * from handoffs where source_run_id = $1 and status = 'initiated' order by created_at desc, id desc limit 1`,
    [runId],
  );
  return row;
}

/**
 * The handoff by which the conversation of this run goes to another agent, or back, once no turn of it is open. Asked under the
 * run's lock, under which its agent hands over.
 */
export async function findConversationHandoff(tx: Tx, runId: string): Promise<string | undefined> {
  const [row] = await tx.query<{ id: string }>(
    `select id from handoffs where carried_by = 'thread' and completed_at is null
       and (source_run_id = $1 and status = 'initiated' or target_run_id = $1 and status = 'rejected') limit 1`,
    [runId],
  );
  return row?.id;
}

/** The agent to which the conversation of this thread was handed last, or given back; undefined where it never was. */
export async function findHandedTo(tx: Tx, threadId: string): Promise<string | undefined> {
  const [row] = await tx.query<{ agent: string }>(
    `select case when h.returned_run_id is null then h.target_agent_id else h.source_agent_id end as agent
     from runs r join handoffs h on h.target_run_id = r.id
     where r.thread_id = $1 and h.carried_by = 'thread' order by r.thread_place desc limit 1`,
    [threadId],
  );
  return row?.agent;
}

/**
 * Whether its source, or the target that has given it back, had read anything for which nobody vouches. One that was cancelled
 * in the middle has answered nothing: its calls say it.
 */
export async function isHandedUntrusted(tx: Tx, id: string): Promise<boolean> {
  const rows = await tx.query(
    `select from handoffs h join runs r on r.id in (h.source_run_id, h.target_run_id)
     where h.id = $1 and (r.trust = 'untrusted'
       or exists (select from tool_calls k where k.run_id = r.id and k.trust = 'untrusted' and k.output is not null)) limit 1`,
    [id],
  );
  return rows.length > 0;
}

/** The last handoff of each of these tasks, by task. */
export async function lastHandoffs(tx: Tx, taskIds: readonly string[]): Promise<Map<string, HandoffRow>> {
  const rows = await tx.query<HandoffRow>(
    'select distinct on (task_id) * from handoffs where task_id = any($1::uuid[]) order by task_id, created_at desc, id desc',
    [taskIds],
  );
  return new Map(rows.map((row) => [row.task_id ?? '', row]));
}

export interface ChainLink extends HandoffLink {
  id: string;
  status: HandoffStatus;
  created_at: Date;
}

/** The chain that ended with work in this run, oldest first; of one that is longer than `most`, its end. */
export async function chainBefore(tx: Tx, runId: string, most: number): Promise<ChainLink[]> {
  const [last] = await tx.query<{ id: string }>(
    'select id from handoffs where target_run_id = $1 or returned_run_id = $1 order by created_at desc, id desc limit 1',
    [runId],
  );
  return last ? chainTo(tx, last.id, most) : [];
}

/** The chain that this handoff ends, itself included, oldest first. */
export async function chainTo(tx: Tx, id: string, most: number): Promise<ChainLink[]> {
  return tx.query<ChainLink>(
    `with recursive chain as (
       select h.*, 1 as depth from handoffs h where h.id = $1
       union all select h.*, c.depth + 1 from handoffs h join chain c on h.id = c.previous_id where c.depth < $2)
     select id, source_agent_id, target_agent_id, checksum, status, created_at from chain order by depth desc`,
    [id, most],
  );
}

/** What becomes of a handoff. An end is final. */
type HandoffChange =
  | { to: 'accepted'; run_id: string }
  | { to: 'completed' | 'failed' | 'cancelled' }
  /** `isReturning`: it is not over before it has come back to its source. */
  | { to: 'rejected'; rejection: Rejection; isReturning?: boolean };

/** Changes one that has not ended; false if it has. Of one that is on its way back only that can be cancelled. */
export async function changeHandoff(tx: Tx, id: string, change: HandoffChange): Promise<boolean> {
  const rows = await tx.query(
    `update handoffs set status = $2, target_run_id = coalesce($3, target_run_id), rejection = coalesce($4::jsonb, rejection),
       accepted_at = case when $2 = 'accepted' then clock_timestamp() else accepted_at end,
       completed_at = case when $2 <> 'accepted' and not $5 then clock_timestamp() end
     where id = $1 and completed_at is null and (status <> 'rejected' or $2 = 'cancelled') returning id`,
    [
      id,
      change.to,
      change.to === 'accepted' ? change.run_id : null,
      change.to === 'rejected' ? JSON.stringify(change.rejection) : null,
      change.to === 'rejected' && (change.isReturning ?? false),
    ],
  );
  return rows.length > 0;
}

/**
 * Takes back what became of a conversation in a turn that is broken off: what its run has handed over and nobody has taken yet is
 * cancelled, and what it has given back is its own again. Asked under the run's lock.
 */
export async function undoHandoffs(tx: Tx, runId: string): Promise<void> {
  await tx.query(
    `update handoffs set status = case status when 'initiated' then 'cancelled' else 'accepted' end, rejection = null,
       completed_at = case status when 'initiated' then clock_timestamp() end
     where carried_by = 'thread' and completed_at is null
       and (source_run_id = $1 and status = 'initiated' or target_run_id = $1 and status = 'rejected')`,
    [runId],
  );
}

/** A rejected one has come back in this run, or to nobody. */
export async function noteReturned(tx: Tx, id: string, runId: string | null): Promise<void> {
  await tx.query(
    'update handoffs set returned_run_id = $2, completed_at = coalesce(completed_at, clock_timestamp()) where id = $1',
    [id, runId],
  );
}

/** A page of a workspace's handoffs, newest first. */
export async function listHandoffs(
  tx: Tx,
  page: {
    workspaceId: string;
    taskId?: string | undefined;
    sourceAgentId?: string | undefined;
    targetAgentId?: string | undefined;
    status?: readonly HandoffStatus[] | undefined;
    before?: string | undefined;
    limit: number;
  },
): Promise<HandoffRow[]> {
  const query = selectFrom('*', 'handoffs', [
    ['workspace_id', '=', page.workspaceId],
    ['task_id', '=', page.taskId],
    ['source_agent_id', '=', page.sourceAgentId],
    ['target_agent_id', '=', page.targetAgentId],
    ['status', 'in', page.status],
    ['id', '<', page.before],
  ]);
  return fetchRows<HandoffRow>(tx, query.orderBy('id', 'desc').limit(page.limit));
}

const ENDED = `('completed', 'failed', 'cancelled')`;

/**
 * Handoffs for which something can be done now: the source has come to its end, or waits between turns; the target has ended;
 * the workflow that carries it has. One tenant's do not keep those of others waiting.
 */
export async function listHandoffsToCarry(db: Database, limit: number): Promise<{ tenant_id: string; id: string }[]> {
  return db.asMaintenance((tx) =>
    tx.query(
      `select tenant_id, id from (
         select h.tenant_id, h.id, row_number() over (partition by h.tenant_id order by h.id) as place from handoffs h
         left join runs s on s.id = h.source_run_id left join runs t on t.id = h.target_run_id
         left join runs w on w.id = h.workflow_id
         where h.completed_at is null and case
           when h.carried_by = 'workflow' then w.id is null or w.status in ${ENDED}
           when h.status = 'accepted' then t.id is null or t.status in ${ENDED}
           when h.status = 'rejected' then t.id is null or t.status in ${ENDED} or t.open_turn_id is null
           when h.carried_by = 'run' then true
           else s.id is null or s.status in ${ENDED} or s.open_turn_id is null end) h
       order by place, id limit $1`,
      [limit],
    ),
  );
}

/** Who asked for the last turn of a run. */
export async function findRequester(tx: Tx, runId: string): Promise<string | null> {
  const [row] = await tx.query<{ key: string | null }>(
    `select payload->>'requested_by' as key from ${edgeEvent('last', { run: '$1', where: "e.type = 'turn.started'" })} e`,
    [runId],
  );
  return row?.key ?? null;
}

/** Fragments of the workspace that this agent may read, of those that are named. */
export async function readSharedFragments(
  tx: Tx,
  of: { workspaceId: string; agentId: string; ids: readonly string[] },
): Promise<{ id: string; content: unknown; created_at: Date; uses: number }[]> {
  return tx.query(
    `select f.id, f.content->'data' as content, f.created_at,
       (select count(*)::int from (select from memory_accesses a where a.memory_id = f.id limit 100) used) as uses
     from memory_fragments f join memory_spaces s on s.id = f.space_id
     where f.id = any($3::uuid[]) and s.workspace_id = $1 and ${VISIBLE}
       and $2 <> all(s.denied_agents) and (s.allowed_agents = '{}' or $2 = any(s.allowed_agents))`,
    [of.workspaceId, of.agentId, of.ids],
  );
}
