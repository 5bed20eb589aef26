/** Reads approvals; `commit_run` writes them. */
import type { PolicyRef } from '../core/policy.ts';
import type { Tx } from './database.ts';
import { fetchSizedPage, type Page } from './page-bytes.ts';
import { fetchRows, selectFrom } from './query-builder.ts';
import { edgeEvent } from './run-log.ts';

interface Approval {
  id: string;
  run_id: string;
  turn_id: string;
  kind: 'approval' | 'unknown' | 'conflict';
  tool_call_id: string | null;
  tool: string;
  digest: string;
  status: 'pending' | 'approved' | 'denied' | 'expired' | 'settled';
  decision: string | null;
  reason: string | null;
  expires_at: Date;
  created_at: Date;
  decided_at: Date | null;
  /** The model's arguments, if a person has replaced them. */
  original_arguments: Record<string, unknown> | null;
  /** Why a person is asked, and the policy that requires it; without a policy the autonomy matrix does. */
  message: string | null;
  policy: PolicyRef | null;
  four_eyes: boolean;
  /** The key used to decide. */
  decided_by: string | null;
  /** Whether its time is up, even if no event says so yet. */
  is_due: boolean;
}

/** An approval; for a call batch, its arguments are the steps. */
export type ApprovalRow = Approval &
  ({ plan_id: null; arguments: Record<string, unknown> } | { plan_id: string; arguments: { steps: BatchedCall[] } });

/** A step in the `arguments` of a call batch's approval. */
export interface BatchedCall {
  tool_call_id: string;
  tool: string;
  arguments: Record<string, unknown>;
}

/** An approval of kind `conflict`: belongs to a memory fragment or entry instead of a run. */
export type ConflictRow = Omit<Approval, 'run_id' | 'turn_id'> & {
  run_id: null;
  turn_id: null;
  plan_id: null;
  arguments: Record<string, unknown>;
  workspace_id: string;
  subject_type: 'fragment' | 'memory';
  subject_id: string;
};

const COLUMNS = `a.id, a.run_id, a.turn_id, a.kind, a.tool_call_id, a.plan_id, a.tool, a.arguments, a.digest, a.status,
  a.decision, a.reason, a.expires_at, a.created_at, a.decided_at, a.original_arguments, a.message, a.policy, a.four_eyes,
  a.decided_by, a.status = 'pending' and a.expires_at <= now() as is_due`;
const TABLES = 'approvals a join runs r on r.id = a.run_id';

/** An approval of a run; only of this workspace, if given. */
export async function findApproval(tx: Tx, id: string, workspaceId?: string): Promise<ApprovalRow | undefined> {
  const [row] = await fetchRows<ApprovalRow>(
    tx,
    selectFrom(COLUMNS, TABLES, [
      ['a.id', '=', id],
      ['r.workspace_id', '=', workspaceId],
    ]),
  );
  return row;
}

const ANY_COLUMNS = `${COLUMNS}, a.workspace_id, a.subject_type, a.subject_id`;
const SIZED = `${ANY_COLUMNS}, json_bytes(a.arguments) + coalesce(json_bytes(a.original_arguments), 0) as bytes`;
const ANY_TABLES = 'approvals a left join runs r on r.id = a.run_id';

/** An approval of the workspace, whether it belongs to a run or not. */
export async function findAnyApproval(
  tx: Tx,
  of: { id: string; workspaceId?: string | undefined },
): Promise<ApprovalRow | ConflictRow | undefined> {
  const query = selectFrom(ANY_COLUMNS, ANY_TABLES, [['a.id', '=', of.id]]);
  if (of.workspaceId !== undefined)
    void query.whereRaw('coalesce(r.workspace_id, a.workspace_id) = ?', [of.workspaceId]);
  const [row] = await fetchRows<ApprovalRow | ConflictRow>(tx, query);
  return row;
}

/** A page of approvals, of runs and others, newest first. */
export async function listApprovals(
  tx: Tx,
  filter: {
    workspaceId: string;
    status?: string | undefined;
    runId?: string | undefined;
    before?: string | undefined;
    limit: number;
  },
): Promise<Page<ApprovalRow | ConflictRow>> {
  const query = selectFrom(SIZED, ANY_TABLES, [
    ['a.status', '=', filter.status],
    ['a.run_id', '=', filter.runId],
    ['a.id', '<', filter.before],
  ]);
  void query.whereRaw('coalesce(r.workspace_id, a.workspace_id) = ?', [filter.workspaceId]);
  return fetchSizedPage<ApprovalRow | ConflictRow>(tx, query, { order: 'id desc', limit: filter.limit });
}

/** A run's undecided approvals. */
export async function listOpenApprovals(
  tx: Tx,
  runId: string,
): Promise<Pick<ApprovalRow, 'id' | 'tool_call_id' | 'plan_id'>[]> {
  return tx.query(`select id, tool_call_id, plan_id from approvals where run_id = $1 and status = 'pending'`, [runId]);
}

/** The open question about a call's unknown outcome, if any. */
export async function findOpenQuestion(
  tx: Tx,
  of: { runId: string; callId: string },
): Promise<{ id: string } | undefined> {
  const [row] = await tx.query<{ id: string }>(
    `select id from approvals where run_id = $1 and tool_call_id = $2 and kind = 'unknown' and status = 'pending'`,
    [of.runId, of.callId],
  );
  return row;
}

/** Stores arguments with which a person replaced the model's. */
export async function replaceArguments(
  tx: Tx,
  of: { callId: string; approvalId: string },
  args: Record<string, unknown>,
): Promise<void> {
  const json = JSON.stringify(args);
  await tx.query('update tool_calls set asked = coalesce(asked, arguments), arguments = $2::jsonb where id = $1', [
    of.callId,
    json,
  ]);
  await tx.query('update approvals set original_arguments = arguments, arguments = $2::jsonb where id = $1', [
    of.approvalId,
    json,
  ]);
}

/** The latest granted approval for a call, by database time; undefined if there is none. */
export async function findGrant(tx: Tx, of: { runId: string; callId: string }): Promise<ApprovalRow | undefined> {
  const [row] = await tx.query<ApprovalRow>(
    `select ${COLUMNS} from ${TABLES} where a.run_id = $1 and a.kind = 'approval' and a.status = 'approved' and (a.tool_call_id = $2::uuid
         or a.arguments->'steps' @> jsonb_build_array(jsonb_build_object('tool_call_id', $2::text)))
       order by a.created_at desc, a.id desc limit 1`,
    [of.runId, of.callId],
  );
  return row;
}

/**
 * Keys with a say in a turn: those that requested it, steered it, or answered in it or ahead of it. For a run that works for
 * another one: the key that handed over or submitted its task, otherwise those of the last turn of the nearest ancestor whose
 * log names any.
 */
export async function findRequesters(tx: Tx, of: { runId: string; turnId: string }): Promise<string[]> {
  const begun = edgeEvent('last', {
    run: 'a.id',
    where: "e.type = 'turn.started' and (a.height > 0 or e.turn_id = $2)",
  });
  const [row] = await tx.query<{ keys: string[] }>(
    `with recursive above (id, parent_run_id, parent_task_id, height) as (
       select id, parent_run_id, parent_task_id, 0 from runs where id = $1 union all
       select r.id, r.parent_run_id, r.parent_task_id, a.height + 1 from above a join runs r on r.id = a.parent_run_id),
     asked as (
       select a.height, array_remove(said.keys || coalesce(t.payload->>'requested_by',
         (select h.requested_by::text from handoffs h where h.task_id = a.parent_task_id and h.requested_by is not null
            order by h.created_at desc, h.id desc limit 1),
         (select k.requested_by::text from tasks k where k.id = a.parent_task_id)), null) as keys
       from above a left join lateral ${begun} t on true cross join lateral (
         select coalesce(array_agg(distinct s.payload->>'requested_by'), '{}') as keys from run_events s
         where s.run_id = a.id and (s.type = 'message.queued' and s.turn_id = t.turn_id and s.payload->>'mode' = 'steer'
           or s.type = 'signal.received' and (s.turn_id = t.turn_id or s.payload->>'tool_call_id' is null))) said)
     select keys from asked where cardinality(keys) > 0 order by height limit 1`,
    [of.runId, of.turnId],
  );
  return row?.keys ?? [];
}

/** The turn of another run that a turn does again: of a run that is a fork, by a retry or a replay, the first one. */
export async function findTurnRedone(
  tx: Tx,
  of: { runId: string; turnId: string },
): Promise<{ runId: string; turnId: string } | undefined> {
  const rows = await tx.query<{ runId: string; turnId: string }>(
    `select o.run_id as "runId", o.id as "turnId" from turns t join runs r on r.id = t.run_id
       join turns o on o.run_id = r.forked_from_run_id and o.number = t.number
       where t.id = $2 and r.id = $1
         and not exists (select from turns e where e.run_id = r.id and e.number < t.number)`,
    [of.runId, of.turnId],
  );
  return rows[0];
}

/** A row of `signals`. `digest`: of its content, if the sender chose the id. */
export interface NewSignal {
  tenantId: string;
  runId: string;
  id: string;
  type: string;
  digest?: string | undefined;
}

/** Inserts a signal; false if one with this id already came, `other` if that had other content. */
export async function insertSignal(tx: Tx, signal: NewSignal): Promise<boolean | 'other'> {
  const { tenantId, runId, id, type, digest = null } = signal;
  const rows = await tx.query(
    'insert into signals (tenant_id, run_id, id, type, digest) values ($1, $2, $3, $4, $5) on conflict do nothing returning 1 as made',
    [tenantId, runId, id, type, digest],
  );
  if (rows.length > 0) return true;
  const others = await tx.query('select 1 from signals where run_id = $1 and id = $2 and digest <> $3', [
    runId,
    id,
    digest,
  ]);
  return others.length > 0 ? 'other' : false;
}
