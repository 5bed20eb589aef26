/** Sessions: threads on which a user talks. Their status is derived from the thread's newest run. */
import type { TurnInput } from '../core/events.ts';
import type { NodeType } from '../core/graph/definition.ts';
import type { SessionFacts } from '../core/session-status.ts';
import type { RiskLevel } from '../core/tool.ts';
import type { RunRow } from './claim-run.ts';
import type { Tx } from './database.ts';
import { beginsWithHandoff } from './handoffs.ts';
import { asColumns } from './query-builder.ts';
import { commitUpTo, edgeEvent } from './run-log.ts';
import { SUSPENDED_BY } from './suspension.ts';

interface SessionRow {
  id: string;
  tenant_id: string;
  workspace_id: string;
  agent_id: string;
  user_id: string;
  autonomy_level: number;
  context: Record<string, unknown>;
  archived_at: string | null;
  created_at: string;
  updated_at: string;
}

/** A session's call batch, for people's decision. */
export interface SessionCallBatch {
  plan_id: string;
  approval_id: string | null;
  run_id: string;
  turn_id: string;
  status: string;
  purpose: string;
  max_risk_level: RiskLevel;
  steps: { tool_call_id: string; tool: string; risk_level: RiskLevel; arguments: Record<string, unknown> }[];
}

/** A session with its newest run, and the facts that determine its status. */
export interface SessionState {
  session: SessionRow;
  run: RunRow | null;
  facts: SessionFacts;
  /** The call batch to be decided on. */
  pending: SessionCallBatch | null;
  /** What suspends the newest run, if unfinished. */
  suspended_by: 'tenant' | 'agent' | null;
  /** The error of the newest turn, or of a run without turns. */
  error: { code: string; message: string } | null;
}

export async function insertSession(
  tx: Tx,
  session: Pick<
    SessionRow,
    'id' | 'tenant_id' | 'workspace_id' | 'agent_id' | 'user_id' | 'autonomy_level' | 'context'
  >,
): Promise<void> {
  await tx.query(
    `insert into sessions (id, tenant_id, workspace_id, agent_id, user_id, autonomy_level, context)
     values ($1, $2, $3, $4, $5, $6, $7::jsonb)`,
    [
      session.id,
      session.tenant_id,
      session.workspace_id,
      session.agent_id,
      session.user_id,
      session.autonomy_level,
      JSON.stringify(session.context),
    ],
  );
}

/** Records a use of the session; a new context replaces the old one. */
export async function touchSession(tx: Tx, id: string, context?: Record<string, unknown>): Promise<void> {
  await tx.query(
    'update sessions set updated_at = clock_timestamp(), context = coalesce($2::jsonb, context) where id = $1',
    [id, context === undefined ? null : JSON.stringify(context)],
  );
}

/** What a session asks of the runs on its thread. */
export type SessionOfThread = Pick<SessionRow, 'user_id' | 'autonomy_level' | 'archived_at'>;

/** The session whose thread this is. The caller holds the thread's lock, under which sessions are deleted. */
export async function findSessionOfThread(tx: Tx, threadId: string): Promise<SessionOfThread | undefined> {
  const [row] = await tx.query<SessionOfThread>(
    'select user_id, autonomy_level, archived_at from sessions where id = $1',
    [threadId],
  );
  return row;
}

/** Archives a session; false if it already was. */
export async function archiveSession(tx: Tx, id: string): Promise<boolean> {
  const rows = await tx.query(
    `update sessions set archived_at = clock_timestamp(), updated_at = clock_timestamp()
      where id = $1 and archived_at is null returning id`,
    [id],
  );
  return rows.length > 0;
}

const stepsWhere = (
  condition: string,
) => `(select coalesce(jsonb_agg(batched.step || jsonb_build_object('arguments', coalesce(k.arguments, '{}')) order by batched.place), '[]')
  from jsonb_array_elements(p.steps) with ordinality as batched (step, place)
  ${asColumns(`(batched.step->>'tool_call_id')::uuid as call`)} c left join tool_calls k on k.id = c.call where ${condition})`;

const callBatch = (
  steps: string,
) => `jsonb_build_object('plan_id', p.id, 'approval_id', coalesce(p.approval_id, a.id), 'run_id', p.run_id, 'turn_id', p.turn_id,
  'status', p.status, 'purpose', p.purpose, 'max_risk_level', p.max_risk_level, 'steps', ${steps})`;

const CALL_BATCH = callBatch(stepsWhere('true'));

// Calls to be decided on; a call refused at once is not among them.
const WAITING_CALL_BATCH = callBatch(stepsWhere("k.status = 'awaiting_approval'"));

// A posted turn that has not begun waits for nobody, whatever the run waited for before.
const WAITS_FOR = `case
  when exists (select from approvals a where a.run_id = r.id and a.status = 'pending') then 'approval'
  when exists (select from waits w where w.run_id = r.id and w.closed_at is null and w.type = 'user') then 'user'
  when exists (select from waits w where w.run_id = r.id and w.closed_at is null) then 'other' end`;

// Calls of a batch that a person rejected or wanted changed have not failed; lapsed and expired ones have. After erasure the
// steps are unknown.
const HAS_FAILED = `k.status in ('failed', 'denied', 'unknown') and not exists (select from approvals a where a.run_id = k.run_id
  and a.turn_id = k.turn_id and a.plan_id is not null and a.status = 'denied'
  and coalesce(a.arguments->'steps' @> jsonb_build_array(jsonb_build_object('tool_call_id', k.id)), true))`;

/** A session's current state; undefined if the workspace has none of this id. */
export async function readSessionState(
  tx: Tx,
  of: { id: string; workspaceId: string },
): Promise<SessionState | undefined> {
  const [row] = await tx.query<SessionState>(
    `select to_jsonb(s) as session, to_jsonb(r) as run,
        jsonb_build_object('run_status', r.status, 'waits_for', ${WAITS_FOR}, 'turn_status', t.status,
          'stop_reason', t.stop_reason, 'has_open_turn', r.open_turn_id is not null,
          'is_calling', exists (select from tool_calls k where k.run_id = r.id and k.turn_id = t.id and k.status in ('pending', 'running')),
          'has_errors', exists (select from tool_calls k where k.run_id = r.id and k.turn_id = t.id and ${HAS_FAILED})
            or exists (select from plans e where e.run_id = r.id and e.turn_id = t.id and e.status = 'completed_with_errors'),
          'has_queued', r.queued is not null and r.queued->>'message_id' is distinct from r.dequeued_id::text) as facts,
        (select ${WAITING_CALL_BATCH} from plans p join approvals a on a.run_id = p.run_id and a.plan_id = p.id and a.status = 'pending'
          where p.run_id = r.id and p.turn_id = r.open_turn_id and p.status = 'proposed' order by p.step desc limit 1) as pending,
        coalesce(t.error, r.error) as error, ${SUSPENDED_BY} as suspended_by
      from sessions s
      join threads d on d.id = s.id
      left join runs r on r.id = d.head_run_id
      left join turns t on t.run_id = r.id and t.number = r.turn_count
      where s.id = $1 and s.workspace_id = $2`,
    [of.id, of.workspaceId],
  );
  return row;
}

/** The newest run, and a version that changes with anything shown of a session. */
export interface SessionVersion {
  version: string;
  run_id: string | null;
}

/** Undefined if the workspace has no session of this id. */
export async function findSessionVersion(
  tx: Tx,
  of: { id: string; workspaceId: string },
): Promise<SessionVersion | undefined> {
  const [row] = await tx.query<SessionVersion>(
    `select r.id as run_id, concat_ws(' ', s.updated_at, s.archived_at, r.id, r.last_seq, r.fence, ${SUSPENDED_BY}) as version
       from sessions s join threads d on d.id = s.id left join runs r on r.id = d.head_run_id
      where s.id = $1 and s.workspace_id = $2`,
    [of.id, of.workspaceId],
  );
  return row;
}

/** A session's run, for followers of the session. */
export interface FollowedRun {
  id: string;
  place: number;
  /** Sequence number at which the position's turn starts; 0 before the run or its first turn. */
  turn_start: number;
}

/** Where a follower continues: the run that contains the position, or the next one. */
export interface FollowedSession {
  /** As in the request. */
  id: string;
  is_archived: boolean;
  run: FollowedRun | null;
}

/** A position in a session. */
export interface FollowedPlace {
  /** Identifies the answer. */
  id: string;
  session_id: string;
  place: number;
  seq: number;
}

/** A client's position, limited to valid values. */
const positionSaid = (said: string) => `ceil(greatest(0, least(${said}, 9e18)))::bigint`;

/** The sessions among these that exist, in any order. */
export async function findFollowedRuns(tx: Tx, asked: readonly FollowedPlace[]): Promise<FollowedSession[]> {
  return tx.query<FollowedSession>(
    `select a.id, s.archived_at is not null as is_archived,
        case when r.id is not null then jsonb_build_object('id', r.id, 'place', r.thread_place, 'turn_start', coalesce((
          select e.seq from ${edgeEvent('last', {
            run: 'r.id',
            where: `r.thread_place = a.place and e.seq <= a.seq and e.type = 'turn.started'
            and e.commit_seq <= c.last_commit`,
          })} e), 0)) end as run
      from jsonb_to_recordset($1::jsonb) a (id text, session_id uuid, place float8, seq float8)
        cross join lateral (select id, archived_at from sessions where id = a.session_id offset 0) s
        left join lateral (select id, thread_place from runs where thread_id = s.id and thread_place >= a.place
          order by thread_place limit 1) r on true
        ${asColumns(`${positionSaid('a.seq')} as seq`)} p
        cross join lateral (select ${commitUpTo('r.id', 'p.seq')} as last_commit offset 0) c`,
    [JSON.stringify(asked)],
  );
}

/** Head of a session: the end of its thread's newest run. */
export interface SessionHead {
  id: string;
  workspace_id: string;
  place: number | null;
  seq: number | null;
}

/** Heads of these sessions, as far as they exist, in any order. */
export async function findSessionHeads(tx: Tx, ids: readonly string[]): Promise<SessionHead[]> {
  return tx.query<SessionHead>(
    `select s.id, s.workspace_id, r.thread_place as place, r.last_seq as seq
      from sessions s join threads d on d.id = s.id left join runs r on r.id = d.head_run_id
      where s.id = any(array(select unnest($1::uuid[])))`,
    [ids],
  );
}

/** The head of a session: number and last sequence number of its newest run. */
export async function findSessionHead(tx: Tx, id: string): Promise<{ place: number; seq: number } | undefined> {
  const [row] = await tx.query<{ place: number; seq: number }>(
    'select r.thread_place as place, r.last_seq as seq from threads d join runs r on r.id = d.head_run_id where d.id = $1',
    [id],
  );
  return row;
}

/** Sequence number of the last turn start up to a position; 0 if there is none. */
export async function findTurnStart(tx: Tx, of: { runId: string; seq: number }): Promise<number> {
  const [row] = await tx.query<{ seq: number }>(
    `select e.seq from ${edgeEvent('last', {
      run: '$1',
      where: `e.seq <= $2::float8 and e.type = 'turn.started'
       and e.commit_seq <= (select ${commitUpTo('$1', positionSaid('$2::float8'))})`,
    })} e`,
    [of.runId, of.seq],
  );
  return row?.seq ?? 0;
}

/** A call batch of a session's thread, in any state. */
export async function findSessionCallBatch(
  tx: Tx,
  of: { sessionId: string; callBatchId: string },
): Promise<SessionCallBatch | undefined> {
  const [row] = await tx.query<{ batch: SessionCallBatch }>(
    `select ${CALL_BATCH} as batch from plans p join runs r on r.id = p.run_id
       left join lateral (select id from approvals a where a.run_id = p.run_id and a.plan_id = p.id
         order by a.created_at desc limit 1) a on true
      where p.id = $1 and r.thread_id = $2`,
    [of.callBatchId, of.sessionId],
  );
  return row?.batch;
}

/** Type of the last graph node that a turn entered; undefined if none. */
export async function findLastNodeType(
  tx: Tx,
  { run_id, turn_id }: Pick<SessionCallBatch, 'run_id' | 'turn_id'>,
): Promise<NodeType | undefined> {
  const [row] = await tx.query<{ type: NodeType }>(
    `select e.payload->>'type' as type from ${edgeEvent('last', {
      run: '$1',
      where: `e.type = 'node.entered' and e.turn_id = $2
       and e.commit_seq >= (select coalesce(started_seq, 0) from turns where id = $2)`,
    })} e`,
    [run_id, turn_id],
  );
  return row?.type;
}

interface UnreadInput {
  input: TurnInput;
  /** Drover says it, and tells of a handoff. */
  is_handed: boolean;
}

/**
 * Inputs of an unfinished run that no model has been told yet, oldest first: of the open turn, and of interrupted ones before
 * it. They are not in the conversation.
 */
export async function listUnreadInputs(tx: Tx, runId: string): Promise<UnreadInput[]> {
  const begins = `(e.type = 'node.entered' or e.type = 'model.called' and jsonb_typeof(e.payload->'tool_choice') = 'string')`;
  return tx.query<UnreadInput>(
    `select t.input, t.number = 1 and ${beginsWithHandoff('r.id')} as is_handed from runs r join turns n on n.run_id = r.id and n.number = r.turn_count and n.steps = 0
       cross join lateral (select coalesce((
         select u.number from ${edgeEvent('last', { run: 'r.id', where: begins })} e join turns u on u.id = e.turn_id), 0) as number) last_read
       join turns t on t.run_id = r.id and t.number > last_read.number and t.status not in ('failed', 'complete')
     where r.id = $1 and r.status not in ('completed', 'failed', 'cancelled') order by t.number`,
    [runId],
  );
}
