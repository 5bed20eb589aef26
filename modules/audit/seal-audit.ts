import { LIMITS } from '../../core/limits.ts';
import { listUnsealedTenants, sealAuditRows } from '../../db/audit.ts';
import type { ProcessContext } from '../process-context.ts';
import { forEachTenant } from '../for-each-isolated.ts';

/**
 * Chains new rows of the audit log, tenant by tenant, and logs each new head: kept elsewhere, it can show later that
 * nothing was cut off at the end (`verifyAudit` takes it). Returns how many rows.
 */
export async function sealAudit(context: Pick<ProcessContext, 'db' | 'log'>): Promise<number> {
  const tenants = await listUnsealedTenants(context.db, LIMITS.sweepRows);
  const done = await forEachTenant(context.log, tenants, async (tenant) => {
    const { sealed, head } = await sealAuditRows(context.db, tenant, LIMITS.sweepRows);
    if (sealed > 0 && head) context.log.info({ tenant, seq: head.seq, hash: head.hash }, 'audit sealed');
    return sealed;
  });
  return done.reduce((total, sealed) => total + sealed, 0);
}
