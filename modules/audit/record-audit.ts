/** Records in one line who did what: `await recordAudit(tx, caller, { action: …, target: […] })`. */
import type { AuditAction } from '../../core/audit.ts';
import { digestOf } from '../../core/ids.ts';
import { newId } from '../../lib/new-id.ts';
import { insertAuditRow } from '../../db/audit.ts';
import type { Tx } from '../../db/database.ts';
import type { Caller } from '../../core/caller.ts';

/** The actor: a key with the origin of its request, or Drover itself. */
export type AuditedBy =
  | Pick<Caller, 'tenantId' | 'workspaceId' | 'keyId' | 'isOperator' | 'origin'>
  | { tenantId: string; keyId?: undefined };

export interface AuditEntry {
  action: AuditAction;
  /** The type of the target, and its id or name. */
  target: readonly [type: string, id?: string];
  /** SHA-256 of the subject of a decision: exact arguments, a definition. */
  digest?: string | undefined;
  /** Ids, names and outcomes; never content or secrets. */
  details?: Record<string, unknown> | undefined;
}

/** Adds a row to the audit log, in the transaction of the act that it records. */
export async function recordAudit(tx: Tx, by: AuditedBy, entry: AuditEntry): Promise<void> {
  const { action, digest, details } = entry;
  const [targetType, targetId] = entry.target;
  await insertAuditRow(tx, {
    id: newId(),
    tenantId: by.tenantId,
    action,
    targetType,
    targetId,
    digest,
    details,
    ...(by.keyId === undefined ? { actorType: 'system' } : actorOf(by)),
  });
}

/**
 * A reason's digest for an entry's details; empty without a reason. The text is stored with the run, where it can be
 * erased; the chain of the audit log keeps its digest.
 */
export function reasonGiven(reason: string | null | undefined): { reason_digest?: string } {
  return reason ? { reason_digest: digestOf(reason) } : {};
}

function actorOf(caller: Extract<AuditedBy, { keyId: string }>) {
  const { keyId: actorId, workspaceId, isOperator, origin } = caller;
  return { actorType: isOperator ? ('operator' as const) : ('api_key' as const), actorId, workspaceId, ...origin };
}
