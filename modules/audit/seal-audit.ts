import { LIMITS } from '../../core/limits.ts';
import { listUnsealedTenants, sealAuditRows } from '../../db/audit.ts';
import type { ProcessContext } from '../process-context.ts';
import { forEachTenant, whileRoundLasts } from '../for-each-isolated.ts';

/**
 * Chains new rows of the audit log, tenant by tenant, and logs each new head: kept elsewhere, it can show later that
 * nothing was cut off at the end (`verifyAudit` takes it). Once each tenant had its turn, those with more rows have another
 * one, for as long as the round lasts. Returns how many rows.
 */
export async function sealAudit(context: Pick<ProcessContext, 'db' | 'log'>): Promise<number> {
  let tenants = await listUnsealedTenants(context.db, LIMITS.sweepRows);
  return whileRoundLasts(async () => {
    const some = await forEachTenant(context.log, tenants, async (tenant) => {
      const { sealed, head } = await sealAuditRows(context.db, tenant, LIMITS.sweepRows);
      if (sealed > 0 && head) context.log.info({ tenant, seq: head.seq, hash: head.hash }, 'audit sealed');
      return { tenant, sealed };
    });
    tenants = some.filter(({ sealed }) => sealed === LIMITS.sweepRows).map(({ tenant }) => tenant);
    return { done: some.reduce((sum, { sealed }) => sum + sealed, 0), hasMore: tenants.length > 0 };
  });
}
