import { notFound } from '../../core/errors.ts';
import type { Database } from '../../db/database.ts';
import { hasWorkspace } from '../../db/tenants.ts';

/** Throws 404, naming `what`, if the tenant has no workspace of this id. */
export async function requireWorkspace(
  db: Database,
  workspace: { tenantId: string; id: string | undefined },
  what: string,
): Promise<void> {
  const { tenantId, id } = workspace;
  const exists = id !== undefined && (await db.withTenant(tenantId, (tx) => hasWorkspace(tx, id)));
  if (!exists) throw notFound(what);
}
