/** Approvals as the API shows them, of the caller's workspace alone. */
import type { Caller } from '../../core/caller.ts';
import { notFound } from '../../core/errors.ts';
import { findApproval, listApprovals, type ApprovalRow } from '../../db/approvals.ts';
import type { Tx } from '../../db/database.ts';

export type { ApprovalRow };

/** An approval; of this run, where one is named. Throws 404. */
export async function requireApproval(
  tx: Tx,
  caller: Caller,
  wanted: { id: string; runId?: string },
): Promise<ApprovalRow> {
  const row = await findApproval(tx, wanted.id, caller.workspaceId);
  if (!row || (wanted.runId !== undefined && row.run_id !== wanted.runId)) throw notFound('The approval');
  return row;
}

/** A page of approvals, newest first. */
export async function readApprovals(
  tx: Tx,
  caller: Caller,
  page: Omit<Parameters<typeof listApprovals>[1], 'workspaceId'>,
): Promise<ApprovalRow[]> {
  return listApprovals(tx, { ...page, workspaceId: caller.workspaceId });
}
