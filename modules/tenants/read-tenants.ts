/** Shows tenants to the operator, and to each its own. */
import type { Caller } from '../../core/caller.ts';
import { notFound } from '../../core/errors.ts';
import type { Database } from '../../db/database.ts';
import { findTenant, listTenants, type TenantRow } from '../../db/tenants.ts';

export type { TenantRow };

/** A tenant. Throws 404, also for another one than the caller's own where the caller is not the operator. */
export async function requireTenant(db: Database, caller: Caller, id: string): Promise<TenantRow> {
  const isShown = id === caller.tenantId || caller.isOperator;
  const row = isShown ? await db.withTenant(id, findTenant) : undefined;
  if (!row) throw notFound('This tenant');
  return row;
}

/** A page of all tenants for the operator, in the order of `listTenants`; for anyone else of their own alone. */
export async function readTenants(
  db: Database,
  caller: Caller,
  page: { before?: string | undefined; limit: number },
): Promise<TenantRow[]> {
  if (caller.isOperator) return db.asMaintenance((tx) => listTenants(tx, page));
  return db.withTenant(caller.tenantId, (tx) => listTenants(tx, page));
}
