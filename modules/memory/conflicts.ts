/** Contradictions for people to decide on: approvals of kind `conflict`, which belong to no run. */
import type { Caller } from '../../core/caller.ts';
import type { NoticeType } from '../../core/notices.ts';
import type { ConflictRow } from '../../db/approvals.ts';
import type { Tx } from '../../db/database.ts';
import {
  askAboutRest,
  endConflict,
  insertConflict,
  listOpenConflicts,
  listOpenDisputes,
  tellAsked,
  undisputeMemories,
  type ConflictEnd,
  type ConflictSubject,
} from '../../db/memory-conflicts.ts';
import { insertNotice } from '../../db/notices.ts';
import { recordAudit, type AuditedBy } from '../audit/record-audit.ts';

interface Conflict {
  tenantId: string;
  workspaceId: string;
  /** Who wrote the contradicting text; Drover itself if found later. */
  by: AuditedBy;
  subject: readonly [type: ConflictSubject, id: string];
  /** `version_a`: the older text; `version_b`: the newer one; `conflicts_with`: where the older one stands. */
  sides: Record<string, unknown>;
  /** Ids and paths, for the audit log and webhooks. */
  details: Record<string, unknown>;
  message: string;
}

/**
 * Logs a contradiction, notifies webhooks, and asks people; ends open questions about the same subject. Returns the
 * approval's id.
 */
export async function openConflict(tx: Tx, conflict: Conflict): Promise<string> {
  const { tenantId, workspaceId, by, subject, sides, details, message } = conflict;
  const [subjectType, subjectId] = subject;
  for (const id of await listOpenConflicts(tx, subjectId)) {
    await closeConflict(tx, { ...conflict, id }, { status: 'expired', reason: 'Another write has come since.' });
  }
  const of = { tenantId, workspaceId, subjectType, subjectId };
  const id = await insertConflict(tx, { ...of, arguments: { [`${subjectType}_id`]: subjectId, ...sides }, message });
  await recordAudit(tx, by, {
    action: 'memory.conflicted',
    target: [subjectType, subjectId],
    details: { ...details, approval_id: id },
  });
  const about = { approval_id: id, [`${subjectType}_id`]: subjectId };
  // Left out: paths are names of fields, which writers choose.
  const { conflicts: _paths, ...ids } = details;
  const payload = { ...about, ...ids };
  await insertNotice(tx, { tenantId, workspaceId, type: 'memory.conflicted', actor: 'system', payload });
  await tellAsked(tx, { ...of, id });
  return id;
}

/** Asks the question of an ended conflict again, about the version that has both of its sides again. */
export async function askAgain(
  tx: Tx,
  by: Caller,
  { earlier, version }: { earlier: ConflictRow; version: number },
): Promise<void> {
  const { subject_type: type, subject_id: id, arguments: sides, message } = earlier;
  const { tenantId, workspaceId } = by;
  const about = { subject: [type, id] as const, sides: { ...sides, version }, details: { version } };
  await openConflict(tx, { tenantId, workspaceId, by, ...about, message: message ?? '' });
}

const ENDS: Record<ConflictEnd['status'], NoticeType> = {
  approved: 'approval.granted',
  denied: 'approval.denied',
  expired: 'approval.expired',
  settled: 'approval.settled',
};

/** Ends an open conflict and notifies webhooks; false if it is not open any more. */
export async function closeConflict(
  tx: Tx,
  { tenantId, workspaceId, id }: { tenantId: string; workspaceId: string; id: string },
  end: ConflictEnd,
): Promise<boolean> {
  if (!(await endConflict(tx, id, end))) return false;
  const { status, decision, decidedBy } = end;
  const payload = {
    approval_id: id,
    kind: 'conflict',
    ...(decision && { decision }),
    ...(decidedBy && { decided_by: decidedBy }),
  };
  const actor = decidedBy ? ('user' as const) : ('system' as const);
  await insertNotice(tx, { tenantId, workspaceId, type: ENDS[status], actor, payload });
  return true;
}

/** Settles the subject's open conflicts: a later write has replaced both sides. */
export async function settleConflicts(
  tx: Tx,
  {
    tenantId,
    workspaceId,
    subjectId,
    keyId,
  }: { tenantId: string; workspaceId: string; subjectId: string; keyId: string },
): Promise<void> {
  for (const id of await listOpenConflicts(tx, subjectId)) {
    await closeConflict(
      tx,
      { tenantId, workspaceId, id },
      { status: 'settled', decision: 'resolve', decidedBy: keyId },
    );
  }
}

/**
 * Ends disputes about entries that were corrected or archived: their other sides are not disputed any more, and the
 * questions end, unless they are about others, too.
 */
export async function endDisputes(
  tx: Tx,
  of: { tenantId: string; workspaceId: string; ids: readonly string[]; keyId?: string },
): Promise<void> {
  const { tenantId, workspaceId, ids, keyId } = of;
  await undisputeMemories(tx, ids);
  await askAboutRest(tx, ids);
  for (const id of await listOpenDisputes(tx, ids)) {
    await closeConflict(
      tx,
      { tenantId, workspaceId, id },
      { status: 'settled', decision: 'resolve', decidedBy: keyId },
    );
  }
}
