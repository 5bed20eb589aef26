import { newId, sha256 } from '../core/ids.ts';
import { insertApiKey } from '../db/api-keys.ts';
import type { Tx } from '../db/database.ts';
import { asOtherTenant, insertTenant, insertWorkspace } from '../db/tenants.ts';
import { newApiKey } from './create-api-key.ts';

export interface CreatedTenant {
  id: string;
  name: string;
  workspaceId: string;
  /** The admin key, shown this once. */
  key: string;
}

/** Makes a tenant with its first workspace and an admin key, in the transaction of the operator's request. */
export async function createTenant(
  tx: Tx,
  request: { name: string; plan_tier?: string | undefined },
): Promise<CreatedTenant> {
  const { name } = request;
  const id = newId();
  const workspaceId = newId();
  const key = newApiKey();
  await asOtherTenant(tx, id, async () => {
    await insertTenant(tx, { id, name, planTier: request.plan_tier });
    await insertWorkspace(tx, { id: workspaceId, tenantId: id, name: 'default' });
    await insertApiKey(tx, { id: newId(), tenantId: id, name: 'first key', hash: sha256(key), scopes: ['admin'] });
  });
  return { id, name, workspaceId, key };
}
