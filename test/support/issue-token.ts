import { quotasOf } from '../../core/rate-limits.ts';
import type { Context } from '../../modules/governance/context.ts';
import { issueToken, type TokenTarget } from '../../modules/tenants/tokens.ts';
import { ownerOfRun } from './queries/runs.ts';

/** A token that reads, made past the check of the request, so that no test waits for the end of a long one. */
export async function issueTestToken(
  { db, keyring }: Pick<Context, 'db' | 'keyring'>,
  { run, keyId, target, ttlSeconds }: { run: string; keyId: string; target: TokenTarget; ttlSeconds: number },
): Promise<string> {
  const owner = await ownerOfRun(db, run);
  const caller = {
    tenantId: owner.tenant_id,
    workspaceId: owner.workspace_id,
    boundWorkspaceId: undefined,
    keyId,
    scopes: ['runs:read' as const],
    quotas: quotasOf({ planTier: 'standard', isDefault: true, settings: {} }),
    isOperator: false,
  };
  const asked = { target, scopes: ['read' as const], ttlSeconds };
  return (await db.withTenant(owner.tenant_id, (tx) => issueToken({ tx, keyring }, caller, asked))).token;
}
