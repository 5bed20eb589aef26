/** Sessions: threads that a user talks on. Their status follows from the thread's newest run. */
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

/** A call batch of a session as people are asked about it. */
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

/** A session, its newest run, and what its status follows from. */
export interface SessionState {
  session: SessionRow;
  run: RunRow | null;
  facts: SessionFacts;
  /** The call batch that waits for a decision. */
  pending: SessionCallBatch | null;
  /** What keeps the newest run, if it is unfinished, from going on. */
  suspended_by: 'tenant' | 'agent' | null;
  /** Why the newest turn has failed, or the run that has had none. */
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

/** Notes that somebody has used the session; a new context takes the place of the old one. */
export async function touchSession(tx: Tx, id: string, context?: Record<string, unknown>): Promise<void> {
  await tx.query(
    'update sessions set updated_at = clock_timestamp(), context = coalesce($2::jsonb, context) where id = $1',
    [id, context === undefined ? null : JSON.stringify(context)],
  );
}

/** Whether the thread is that of a session that was deleted. Asked under the thread's lock, under which sessions are deleted. */
export async function isSessionDeleted(tx: Tx, threadId: string): Promise<boolean> {
  const rows = await tx.query('select from sessions where id = $1 and archived_at is not null', [threadId]);
  return rows.length > 0;
}

/** Archives it; answers false if it was already. */
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
// What is decided on: a call that was refused at once is no part of that.
const WAITING_CALL_BATCH = callBatch(stepsWhere("k.status = 'awaiting_approval'"));

// A turn that was posted and has not begun waits for nobody, whatever the run has waited for before it.
const WAITS_FOR = `case
  when exists (select from approvals a where a.run_id = r.id and a.status = 'pending') then 'approval'
  when exists (select from waits w where w.run_id = r.id and w.closed_at is null and w.type = 'user') then 'user'
  when exists (select from waits w where w.run_id = r.id and w.closed_at is null) then 'other' end`;

// What a person has refused as a whole, or wanted otherwise, has not failed; what lapsed, or nobody has decided on in time, has. After erasure the steps are not known any more.
const HAS_FAILED = `k.status in ('failed', 'denied', 'unknown') and not exists (select from approvals a where a.run_id = k.run_id
  and a.turn_id = k.turn_id and a.plan_id is not null and a.status = 'denied'
  and coalesce(a.arguments->'steps' @> jsonb_build_array(jsonb_build_object('tool_call_id', k.id)), true))`;

/** A session as it stands now; undefined if there is none of that id in the workspace. */
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

/** What changes with everything that is shown of a session, and its newest run. */
export interface SessionVersion {
  version: string;
  run_id: string | null;
}

/** Undefined if there is no session of that id in the workspace. */
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

/** A run of a session, as whoever follows the session finds it. */
export interface FollowedRun {
  id: string;
  place: number;
  /** Sequence number of the start of the turn in which the position lies; 0 where it is before the run, or before its first turn. */
  turn_start: number;
}

/** What follows in a session from a position on: the run in which that lies, or the next one after it. */
export interface FollowedSession {
  /** As it was asked for. */
  id: string;
  is_archived: boolean;
  run: FollowedRun | null;
}

/** A position in a session. */
export interface FollowedPlace {
  /** By which the answer is told from others. */
  id: string;
  session_id: string;
  place: number;
  seq: number;
}

/** A position that a client has said, as the log has them. */
const positionSaid = (said: string) => `ceil(greatest(0, least(${said}, 9e18)))::bigint`;

/** Of those of these sessions that there are, in any order. */
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

/** Where a session stands: at the end of the newest run of its thread. */
export interface SessionHead {
  id: string;
  workspace_id: string;
  place: number | null;
  seq: number | null;
}

/** Of those of these sessions that there are, in any order. */
export async function findSessionHeads(tx: Tx, ids: readonly string[]): Promise<SessionHead[]> {
  return tx.query<SessionHead>(
    `select s.id, s.workspace_id, r.thread_place as place, r.last_seq as seq
      from sessions s join threads d on d.id = s.id left join runs r on r.id = d.head_run_id
      where s.id = any(array(select unnest($1::uuid[])))`,
    [ids],
  );
}

/** Where the newest run of a session stands. */
export async function findSessionHead(tx: Tx, id: string): Promise<{ place: number; seq: number } | undefined> {
  const [row] = await tx.query<{ place: number; seq: number }>(
    'select r.thread_place as place, r.last_seq as seq from threads d join runs r on r.id = d.head_run_id where d.id = $1',
    [id],
  );
  return row;
}

/** Sequence number of the last turn's start up to there; 0 if there is none. */
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

/** A call batch of a session's thread, whatever became of it. */
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

/** Of which type the node of its agent's graph is that a turn has entered last; undefined where it has entered none. */
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
 * What a run that goes on was asked and no model has been told yet, oldest first: in its open turn, and in those before that were interrupted.
 * The conversation does not have it.
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

/** Ids of the workspace's agents that take runs, two at most. */
export async function listActiveAgents(tx: Tx, workspaceId: string): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(
    `select a.id from agents a join agent_versions v on v.agent_id = a.id and v.version = a.current_version
      where a.workspace_id = $1 and a.status <> 'deprecated' and v.definition->'is_active' is distinct from 'false'::jsonb
      order by a.id limit 2`,
    [workspaceId],
  );
  return rows.map(({ id }) => id);
}
