/** Approvals as they are read; `commit_run` writes them. */
import type { Tx } from './database.ts';

export interface ApprovalRow {
  id: string;
  run_id: string;
  turn_id: string;
  kind: 'approval' | 'unknown' | 'conflict';
  tool_call_id: string | null;
  plan_id: string | null;
  tool: string;
  arguments: Record<string, unknown>;
  digest: string;
  status: 'pending' | 'approved' | 'denied' | 'expired' | 'settled';
  decision: string | null;
  reason: string | null;
  expires_at: Date;
  created_at: Date;
  decided_at: Date | null;
}

const APPROVAL = `select a.id, a.run_id, a.turn_id, a.kind, a.tool_call_id, a.plan_id, a.tool, a.arguments, a.digest, a.status,
  a.decision, a.reason, a.expires_at, a.created_at, a.decided_at from approvals a join runs r on r.id = a.run_id`;

/** An approval of a run in this workspace. */
export async function findApproval(tx: Tx, id: string, workspaceId?: string): Promise<ApprovalRow | undefined> {
  const [row] = await tx.query<ApprovalRow>(
    `${APPROVAL} where a.id = $1 and ($2::uuid is null or r.workspace_id = $2)`,
    [id, workspaceId ?? null],
  );
  return row;
}

/** A page of approvals, newest first. */
export async function listApprovals(
  tx: Tx,
  filter: {
    workspaceId: string;
    status?: string | undefined;
    runId?: string | undefined;
    before?: string | undefined;
    limit: number;
  },
): Promise<ApprovalRow[]> {
  return tx.query<ApprovalRow>(
    `${APPROVAL} where r.workspace_id = $1 and ($2::text is null or a.status = $2) and ($3::uuid is null or a.run_id = $3)
       and ($4::uuid is null or a.id < $4) order by a.id desc limit $5`,
    [filter.workspaceId, filter.status ?? null, filter.runId ?? null, filter.before ?? null, filter.limit],
  );
}

/** Those of a run that nobody has decided yet. */
export async function listOpenApprovals(tx: Tx, runId: string): Promise<{ id: string; tool_call_id: string | null }[]> {
  return tx.query(`select id, tool_call_id from approvals where run_id = $1 and status = 'pending'`, [runId]);
}

/** Keeps the arguments that a person has put in place of the model's. */
export async function replaceArguments(
  tx: Tx,
  of: { callId: string; approvalId: string },
  args: Record<string, unknown>,
): Promise<void> {
  const json = JSON.stringify(args);
  await tx.query('update tool_calls set arguments = $2::jsonb where id = $1', [of.callId, json]);
  await tx.query('update approvals set arguments = $2::jsonb where id = $1', [of.approvalId, json]);
}

/** Notes a signal; false where one with this id has come before. */
export async function insertSignal(
  tx: Tx,
  signal: { tenantId: string; runId: string; id: string; type: string },
): Promise<boolean> {
  const rows = await tx.query(
    'insert into signals (tenant_id, run_id, id, type) values ($1, $2, $3, $4) on conflict do nothing returning 1 as made',
    [signal.tenantId, signal.runId, signal.id, signal.type],
  );
  return rows.length > 0;
}
