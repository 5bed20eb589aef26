import type { Caller } from '../../core/caller.ts';
import { forbidden, notFound } from '../../core/errors.ts';
import type { Database } from '../../db/database.ts';
import { asOtherTenant, changeTenant, type TenantRow, type TenantSettingsChange } from '../../db/tenants.ts';
import { recordAudit } from '../audit/record-audit.ts';
import { requireTenant } from './read-tenants.ts';

interface TenantChange {
  id: string;
  plan_tier?: string | undefined;
  settings?: TenantSettingsChange | undefined;
}

/**
 * Changes a tenant's plan tier and settings, and returns the tenant; without changes it only reads. Throws 404, and 403
 * if anyone but the operator changes something.
 */
export async function updateTenant(db: Database, caller: Caller, change: TenantChange): Promise<TenantRow> {
  const { id, plan_tier, settings } = change;
  const before = await requireTenant(db, caller, id);
  if (plan_tier === undefined && settings === undefined) return before;
  if (!caller.isOperator) throw forbidden('The operator sets plan tiers and rates.');
  return db.withTenant(id, async (tx) => {
    const row = await changeTenant(tx, { planTier: plan_tier, settings });
    if (!row) throw notFound('This tenant');
    const entry = {
      action: 'tenant.updated' as const,
      target: ['tenant', id] as const,
      details: { ...(plan_tier !== undefined && { plan_tier }), ...(settings && { settings }) },
    };
    await recordAudit(tx, { ...caller, tenantId: id }, entry);
    if (id !== caller.tenantId) await asOtherTenant(tx, caller.tenantId, () => recordAudit(tx, caller, entry));
    return row;
  });
}
