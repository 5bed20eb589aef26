/** Reads approvals for the API, of the caller's workspace alone. */
import type { Caller } from '../../core/caller.ts';
import { notFound } from '../../core/errors.ts';
import { findAnyApproval, listApprovals, type ApprovalRow, type ConflictRow } from '../../db/approvals.ts';
import type { Tx } from '../../db/database.ts';

export type { ApprovalRow, ConflictRow };

/** An approval; of `runId` if given. Throws 404. */
export async function requireApproval(
  tx: Tx,
  caller: Caller,
  wanted: { id: string; runId?: string },
): Promise<ApprovalRow | ConflictRow> {
  const row = await findAnyApproval(tx, { id: wanted.id, workspaceId: caller.workspaceId });
  if (!row || (wanted.runId !== undefined && row.run_id !== wanted.runId)) throw notFound('The approval');
  return row;
}

/** A page of approvals, newest first. */
export async function readApprovals(
  tx: Tx,
  caller: Caller,
  page: Omit<Parameters<typeof listApprovals>[1], 'workspaceId'>,
): ReturnType<typeof listApprovals> {
  return listApprovals(tx, { ...page, workspaceId: caller.workspaceId });
}
