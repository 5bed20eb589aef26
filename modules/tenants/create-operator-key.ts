import { notFound } from '../../core/errors.ts';
import type { Database } from '../../db/database.ts';
import { hasTenant } from '../../db/tenants.ts';
import { ensureDefaultTenant } from './bootstrap.ts';
import { createApiKey, type ApiKeyRequest } from './create-api-key.ts';

/** Makes a key of a tenant, the default one where none is named, for whoever holds the database: the first key. */
export async function createOperatorKey(db: Database, request: ApiKeyRequest, wantedTenantId?: string) {
  const { tenantId: ownTenant } = await ensureDefaultTenant(db);
  const tenantId = wantedTenantId ?? ownTenant;
  return db.withTenant(tenantId, async (tx) => {
    if (!(await hasTenant(tx, tenantId))) throw notFound('The tenant');
    return createApiKey(tx, { tenantId }, request);
  });
}
