/** Reads approvals; `commit_run` writes them. */
import type { PolicyRef } from '../core/policy.ts';
import type { Tx } from './database.ts';
import { fetchSizedPage, type Page } from './page-bytes.ts';
import { fetchRows, selectFrom } from './query-builder.ts';

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
