import { notFound } from '../../core/errors.ts';
import type { Database } from '../../db/database.ts';
import { hasTenant } from '../../db/tenants.ts';
import { ensureDefaultTenant } from './bootstrap.ts';
import { createApiKey, type ApiKeyRequest } from './create-api-key.ts';

/** Makes a key, such as the first one, of a tenant (by default the default one), for anyone with access to the database. */
export async function createOperatorKey(db: Database, request: ApiKeyRequest, wantedTenantId?: string) {
  const { tenantId: ownTenant } = await ensureDefaultTenant(db);
  const tenantId = wantedTenantId ?? ownTenant;
  return db.withTenant(tenantId, async (tx) => {
    if (!(await hasTenant(tx, tenantId))) throw notFound('The tenant');
    return createApiKey(tx, { tenantId }, request);
  });
}
