import { fixedId, sha256 } from '../../core/ids.ts';
import { putApiKey } from '../../db/api-keys.ts';
import type { Database } from '../../db/database.ts';
import { insertTenant, insertWorkspace } from '../../db/tenants.ts';
import { recordAudit } from '../audit/record-audit.ts';

/** The tenant of the installation's operator; its id is the same everywhere. */
export const DEFAULT_TENANT_ID = fixedId('tenant:default');
export const DEFAULT_WORKSPACE_ID = fixedId('workspace:default');
const CONFIGURED_KEY_ID = fixedId('api-key:DROVER_API_KEY');

/**
 * Makes the default tenant and its workspace if missing. `apiKey` becomes its admin key, and replaces one from an
 * earlier start; without it keys stay unchanged. Safe to run at every start, in any number of processes.
 */
export async function ensureDefaultTenant(
  db: Database,
  options: { apiKey?: string | undefined } = {},
): Promise<{ tenantId: string; workspaceId: string }> {
  const tenantId = DEFAULT_TENANT_ID;
  await db.withTenant(tenantId, async (tx) => {
    await insertTenant(tx, { id: tenantId, name: 'default' });
    await insertWorkspace(tx, { id: DEFAULT_WORKSPACE_ID, tenantId, name: 'default' });
    if (options.apiKey === undefined) return;
    const hash = sha256(options.apiKey);
    const key = { id: CONFIGURED_KEY_ID, tenantId, name: 'DROVER_API_KEY', hash, scopes: ['admin' as const] };
    if (!(await putApiKey(tx, key))) return;
    const details = { name: key.name, scopes: key.scopes };
    await recordAudit(tx, { tenantId }, { action: 'api_key.created', target: ['api_key', key.id], details });
  });
  return { tenantId, workspaceId: DEFAULT_WORKSPACE_ID };
}
