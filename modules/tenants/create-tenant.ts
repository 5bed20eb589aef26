import { sha256 } from '../../core/ids.ts';
import { newId } from '../../lib/new-id.ts';
import { insertApiKey } from '../../db/api-keys.ts';
import type { Tx } from '../../db/database.ts';
import { asOtherTenant, insertTenant, insertWorkspace, type TenantSettings } from '../../db/tenants.ts';
import type { Caller } from '../../core/caller.ts';
import { newApiKey } from './create-api-key.ts';
import { recordAudit } from '../audit/record-audit.ts';

interface CreatedTenant {
  id: string;
  name: string;
  workspaceId: string;
  /** The admin key, shown only once. */
  key: string;
}

/** Makes a tenant with a first workspace and an admin key, in the transaction of the operator's request. */
export async function createTenant(
  tx: Tx,
  caller: Caller,
  request: { name: string; plan_tier?: string | undefined; settings?: TenantSettings | undefined },
): Promise<CreatedTenant> {
  const { name } = request;
  const id = newId();
  const workspaceId = newId();
  const key = newApiKey();
  await asOtherTenant(tx, id, async () => {
    await insertTenant(tx, { id, name, planTier: request.plan_tier, settings: request.settings });
    await insertWorkspace(tx, { id: workspaceId, tenantId: id, name: 'default' });
    await insertApiKey(tx, { id: newId(), tenantId: id, name: 'first key', hash: sha256(key), scopes: ['admin'] });
    // In both audit logs: the tenant's begins with its origin.
    const by = { ...caller, tenantId: id, workspaceId };
    await recordAudit(tx, by, { action: 'tenant.created', target: ['tenant', id], details: { name } });
  });
  await recordAudit(tx, caller, { action: 'tenant.created', target: ['tenant', id], details: { name } });
  return { id, name, workspaceId, key };
}
