/** Handoffs, one row each, with content and progress. */
import type { HandoffContext, HandoffLink, HandoffStatus, Urgency } from '../core/handoff.ts';
import { resultOf, type Database, type Tx } from './database.ts';
import { fetchRows, selectFrom } from './query-builder.ts';
import { hasReadUntrusted } from './unread.ts';

/** What carries a handoff: the workflow of its task, the thread's next run, or a separate run. */
export type HandoffCarrier = 'workflow' | 'thread' | 'run';

/**
 * That a run begins with what Drover says of a handoff: nobody else has said what its first turn was asked. A fork begins
 * as the run that it was forked from.
 */
export const beginsWithHandoff = (run: string) => beginsAsHanded(run, 'true');

/** The same, where the run's own messages begin with it: a fork that goes on with the turn has the other run's message. */
export const writesOfHandoff = (run: string) => beginsAsHanded(run, 'o.base_length = a.base_length');

const beginsAsHanded = (run: string, isSame: string) => `exists (
  with recursive again as (select b.id, b.forked_from_run_id, b.base_length from runs b where b.id = ${run}
    union all select o.id, o.forked_from_run_id, o.base_length from again a join runs o on o.id = a.forked_from_run_id and ${isSame})
  select from again a join handoffs h on h.target_run_id = a.id or h.returned_run_id = a.id)`;

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
  /** Estimated time until somebody can take it, in ms. */
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

/** Inserts a new handoff with status `initiated`. */
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

/** The handoff, locked until the transaction ends. */
export async function lockHandoff(tx: Tx, id: string): Promise<HandoffRow | undefined> {
  const [row] = await tx.query<HandoffRow>('select * from handoffs where id = $1 for update', [id]);
  return row;
}

/** The handoff made by a tool call. */
export async function findHandoffOfCall(tx: Tx, toolCallId: string): Promise<HandoffRow | undefined> {
  const [row] = await tx.query<HandoffRow>('select * from handoffs where tool_call_id = $1', [toolCallId]);
  return row;
}

/** Whether a handoff is older than this. */
export async function isHandoffOlder(tx: Tx, id: string, seconds: number): Promise<boolean> {
  const rows = await tx.query<{ result: boolean }>(
    `select created_at < clock_timestamp() - $2 * interval '1 second' as result from handoffs where id = $1`,
    [id, seconds],
  );
  return resultOf(rows);
}

/** The handoff whose target works in this run, if any; locked. */
export async function lockHandoffTo(tx: Tx, runId: string): Promise<HandoffRow | undefined> {
  const [row] = await tx.query<HandoffRow>('select * from handoffs where target_run_id = $1 for update', [runId]);
  return row;
}

/** The handoff that waits for the end of this run. */
export async function findHandoffFrom(tx: Tx, runId: string): Promise<HandoffRow | undefined> {
  const [row] = await tx.query<HandoffRow>(
    `select * from handoffs where source_run_id = $1 and status = 'initiated' order by created_at desc, id desc limit 1`,
    [runId],
  );
  return row;
}

/**
 * The handoff that moves this run's conversation to another agent, or back, once no turn is open. The caller holds the run's
 * lock, under which its agent makes handoffs.
 */
export async function findConversationHandoff(tx: Tx, runId: string): Promise<string | undefined> {
  const [row] = await tx.query<{ id: string }>(
    `select id from handoffs where carried_by = 'thread' and completed_at is null
       and (source_run_id = $1 and status = 'initiated' or target_run_id = $1 and status = 'rejected') limit 1`,
    [runId],
  );
  return row?.id;
}

/** The agent that last got this thread's conversation, handed on or back; undefined if it never moved. */
export async function findHandedTo(tx: Tx, threadId: string): Promise<string | undefined> {
  const [row] = await tx.query<{ agent: string }>(
    `select case when h.returned_run_id is null then h.target_agent_id else h.source_agent_id end as agent
     from runs r join handoffs h on h.target_run_id = r.id
     where r.thread_id = $1 and h.carried_by = 'thread' order by r.thread_place desc limit 1`,
    [threadId],
  );
  return row?.agent;
}

/** Where a run's conversation goes on after a handoff. */
export interface HandedOn {
  handoff_id: string;
  status: HandoffStatus;
  agent_id: string;
  /** Null until it has begun. */
  run_id: string | null;
}

/** Of these runs, those whose conversation was last handed to another agent, or back; with where it goes on. */
export async function listHandedOn(tx: Tx, runIds: readonly string[]): Promise<Map<string, HandedOn>> {
  // A handoff that was rejected before the target had a run, and went back to nobody, has moved nothing.
  const rows = await tx.query<HandedOn & { of_run: string }>(
    `select distinct on (of_run) of_run, handoff_id, status, agent_id, run_id from (
       select h.source_run_id as of_run, h.id as handoff_id, h.status, coalesce(h.target_run_id, h.returned_run_id) as run_id,
         case when h.status = 'rejected' and h.target_run_id is null then h.source_agent_id else h.target_agent_id end as agent_id
       from handoffs h where h.source_run_id = any($1::uuid[]) and h.carried_by = 'thread' and h.status <> 'cancelled'
         and not (h.status = 'rejected' and h.completed_at is not null and h.target_run_id is null and h.returned_run_id is null)
       union all
       select h.target_run_id, h.id, h.status, h.returned_run_id, h.source_agent_id
       from handoffs h where h.target_run_id = any($1::uuid[]) and h.carried_by = 'thread' and h.status = 'rejected'
         and (h.completed_at is null or h.returned_run_id is not null)) n
     order by of_run, handoff_id desc`,
    [runIds],
  );
  return new Map(rows.map(({ of_run, ...next }) => [of_run, next]));
}

/** Whether its source, or the target that returned it, had read content that nobody vouches for. */
export async function isHandedUntrusted(
  tx: Tx,
  { source_run_id: source, target_run_id: target }: Pick<HandoffRow, 'source_run_id' | 'target_run_id'>,
): Promise<boolean> {
  if (source !== null && (await hasReadUntrusted(tx, source))) return true;
  return target !== null && hasReadUntrusted(tx, target);
}

/** The last handoff of each task. */
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

/** The chain of handoffs that led to this run, oldest first; only the last `most`. */
export async function chainBefore(tx: Tx, runId: string, most: number): Promise<ChainLink[]> {
  const [last] = await tx.query<{ id: string }>(
    'select id from handoffs where target_run_id = $1 or returned_run_id = $1 order by created_at desc, id desc limit 1',
    [runId],
  );
  return last ? chainTo(tx, last.id, most) : [];
}

/** All handoffs of a task, oldest first; only the last `most`. */
export async function listTaskHandoffs(tx: Tx, taskId: string, most: number): Promise<ChainLink[]> {
  const rows = await tx.query<ChainLink>(
    `select id, source_agent_id, target_agent_id, checksum, status, created_at from handoffs where task_id = $1
      order by id desc limit $2`,
    [taskId, most],
  );
  return rows.toReversed();
}

/** The chain that ends with this handoff, oldest first. */
export async function chainTo(tx: Tx, id: string, most: number): Promise<ChainLink[]> {
  return tx.query<ChainLink>(
    `with recursive chain as (
       select h.*, 1 as depth from handoffs h where h.id = $1
       union all select h.*, c.depth + 1 from handoffs h join chain c on h.id = c.previous_id where c.depth < $2)
     select id, source_agent_id, target_agent_id, checksum, status, created_at from chain order by depth desc`,
    [id, most],
  );
}

/** A change of a handoff. Ended handoffs are final. */
type HandoffChange =
  | { to: 'accepted'; run_id: string }
  | { to: 'completed' | 'failed' | 'cancelled' }
  /** `isReturning`: not over until the work is back at its source. */
  | { to: 'rejected'; rejection: Rejection; isReturning?: boolean };

/** Changes a handoff that has not ended; false if it has. One that is returning can only be cancelled. */
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
 * Undoes handovers of a conversation in an aborted turn: cancels those that nobody has taken yet, and takes back returned
 * ones. The caller holds the run's lock.
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

/** Records that a rejected handoff has returned: in this run, or to nobody. */
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
 * Handoffs that can proceed: their source has ended or waits between turns, or the target or the carrying workflow has ended.
 * Tenants take turns.
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

/** Whether this agent has handed the thread's conversation on, so that users talk to another one. */
export async function hasHandedOff(tx: Tx, of: { threadId: string; agentId: string }): Promise<boolean> {
  const rows = await tx.query(
    `select 1 from runs where thread_id = $1 and agent_id = $2 and stop_reason = 'handoff' limit 1`,
    [of.threadId, of.agentId],
  );
  return rows.length > 0;
}
