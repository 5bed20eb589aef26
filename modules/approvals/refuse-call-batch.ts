/** Lets a person refuse a call batch and end its turn: the model is not asked again. */
import { refuseApproval } from '../../core/decision-events/approvals.ts';
import type { NewEvent } from '../../core/events.ts';
import { findApproval } from '../../db/approvals.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { Tx } from '../../db/database.ts';
import { reasonGiven, recordAudit, type AuditedBy } from '../audit/record-audit.ts';

interface RefusedCallBatch {
  run: RunRow;
  approvalId: string;
  message: string;
  reason: string | undefined;
  by: AuditedBy;
}

/** The refusal's events, without those of the calls, which the caller closes with the turn. Null if it was decided already. */
export async function refuseCallBatch(
  tx: Tx,
  { run, approvalId, message, reason, by }: RefusedCallBatch,
): Promise<NewEvent[] | null> {
  const approval = await findApproval(tx, approvalId);
  if (approval?.status !== 'pending' || approval.plan_id === null) return null;
  const { kind, tool, digest, plan_id: callBatchId, turn_id: turnId } = approval;
  const details = { decision: 'deny', kind, run_id: run.id, tool, ...reasonGiven(reason) };
  await recordAudit(tx, by, { action: 'approval.decided', target: ['approval', approvalId], digest, details });
  const decidedBy = by.keyId;
  return refuseApproval({ approvalId, turnId, callBatchId, calls: [] }, { kind: 'denied', reason, decidedBy, message });
}
