/** Writes tenants' policies: each change is a new version, and applies to every call from its commit on. */
import { conflict, impossible, notFound, type FieldError } from '../../core/errors.ts';
import { canonicalJson } from '../../core/canonical-json.ts';
import { digestOf } from '../../core/ids.ts';
import { newId } from '../../lib/new-id.ts';
import { LIMITS } from '../../core/limits.ts';
import { withPatch, type Patch } from '../../core/patch.ts';
import type { PolicyDefinition } from '../../core/policy.ts';
import type { Tx } from '../../db/database.ts';
import { advancePolicyEpoch } from '../../db/governance.ts';
import {
  countPolicies,
  deletePolicy,
  findPolicy,
  insertPolicy,
  publishPolicyVersion,
  type PolicyRow,
} from '../../db/policies.ts';
import { compileWhen } from './rules.ts';
import type { Caller } from '../../core/caller.ts';
import { recordAudit, type AuditEntry } from '../audit/record-audit.ts';

/** Makes a policy. Throws 409 for a taken name, 422 for an invalid expression or combination. */
export async function createPolicy(tx: Tx, caller: Caller, definition: PolicyDefinition): Promise<PolicyRow> {
  checkPolicy(definition);
  await advancePolicyEpoch(tx);
  if ((await countPolicies(tx)) >= LIMITS.policiesPerTenant) {
    throw impossible(`A tenant has at most ${LIMITS.policiesPerTenant} policies.`);
  }
  const row = await insertPolicy(tx, { id: newId(), tenantId: caller.tenantId, keyId: caller.keyId, definition });
  if (!row) throw nameTaken(definition.name);
  await recordAudit(tx, caller, { action: 'policy.created', ...auditOf(row) });
  return row;
}

/** Publishes a new version, unless the patch changes nothing. Throws 404, 409, 422 as `createPolicy`. */
export async function updatePolicy(
  tx: Tx,
  caller: Caller,
  { id, patch }: { id: string; patch: Patch<PolicyDefinition> },
): Promise<PolicyRow> {
  // Locks the tenant's row, which serializes changes.
  await advancePolicyEpoch(tx);
  const current = await findPolicy(tx, id);
  if (!current) throw notFound('The policy');
  const definition = withPatch(current.definition, patch);
  checkPolicy(definition);
  if (canonicalJson(definition) === canonicalJson(current.definition)) return current;
  const { tenantId, keyId } = caller;
  const row = await publishPolicyVersion(tx, { id, tenantId, keyId, definition, version: current.version + 1 });
  if (!row) throw nameTaken(definition.name);
  await recordAudit(tx, caller, { action: 'policy.updated', ...auditOf(row) });
  return row;
}

/** Deletes a policy; its decisions stay on record. Throws 404. */
export async function removePolicy(tx: Tx, caller: Caller, id: string): Promise<void> {
  await advancePolicyEpoch(tx);
  if (!(await deletePolicy(tx, id))) throw notFound('The policy');
  await recordAudit(tx, caller, { action: 'policy.deleted', target: ['policy', id] });
}

function auditOf({ id, version, definition }: PolicyRow): Omit<AuditEntry, 'action'> {
  const details = { name: definition.name, version, decision: definition.decision };
  return { target: ['policy', id], digest: digestOf(definition), details };
}

function nameTaken(name: string) {
  return conflict(`There is already a policy named "${name}".`);
}

function checkPolicy({ when, decision, rewrite, four_eyes: fourEyes }: PolicyDefinition): void {
  const errors: FieldError[] = [];
  const compiled = compileWhen(when);
  if (!compiled.ok) errors.push({ path: 'body.when', message: compiled.error });
  if (decision === 'rewrite' && !rewrite) {
    errors.push({ path: 'body.rewrite', message: 'is required with the decision "rewrite"' });
  }
  if (decision !== 'rewrite' && rewrite) {
    errors.push({ path: 'body.rewrite', message: 'goes with the decision "rewrite" only' });
  }
  if (decision !== 'require_approval' && fourEyes) {
    errors.push({ path: 'body.four_eyes', message: 'goes with the decision "require_approval" only' });
  }
  if (errors.length > 0) throw impossible(`${errors[0]?.path} ${errors[0]?.message}.`, errors);
}
