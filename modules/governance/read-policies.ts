/** Reads a tenant's policies for the API. */
import { notFound } from '../../core/errors.ts';
import type { Tx } from '../../db/database.ts';
import { findPolicy, listPolicies as readPolicies, listPolicyVersions, type PolicyRow } from '../../db/policies.ts';

export { readPolicies };

/** A policy with its current definition. Throws 404. */
export async function requirePolicy(tx: Tx, id: string): Promise<PolicyRow> {
  const row = await findPolicy(tx, id);
  if (!row) throw notFound('The policy');
  return row;
}

/** A page of a policy's versions, newest first. Throws 404 if there is no such policy. */
export async function readPolicyVersions(
  tx: Tx,
  id: string,
  page: Parameters<typeof listPolicyVersions>[2],
): ReturnType<typeof listPolicyVersions> {
  await requirePolicy(tx, id);
  return listPolicyVersions(tx, id, page);
}
