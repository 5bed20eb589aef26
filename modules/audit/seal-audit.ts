import { LIMITS } from '../../core/limits.ts';
import { listUnsealedTenants, sealAuditRows } from '../../db/audit.ts';
import type { ProcessContext } from '../process-context.ts';
import { forEachTenant } from '../for-each-isolated.ts';

const TICK_MS = 4000;

/**
 * Chains new rows of the audit log, tenant by tenant, and logs each new head: kept elsewhere, it can show later that
 * nothing was cut off at the end (`verifyAudit` takes it). Once each tenant had its turn, those with more rows have another
 * one, for as long as a tick lasts. Returns how many rows.
 */
export async function sealAudit(context: Pick<ProcessContext, 'db' | 'log'>): Promise<number> {
  const endsAtMs = performance.now() + TICK_MS;
  let tenants = await listUnsealedTenants(context.db, LIMITS.sweepRows);
  let total = 0;
  while (tenants.length > 0 && performance.now() < endsAtMs) {
    const done = await forEachTenant(context.log, tenants, async (tenant) => {
      const { sealed, head } = await sealAuditRows(context.db, tenant, LIMITS.sweepRows);
      if (sealed > 0 && head) context.log.info({ tenant, seq: head.seq, hash: head.hash }, 'audit sealed');
      return { tenant, sealed };
    });
    total += done.reduce((sum, { sealed }) => sum + sealed, 0);
    tenants = done.filter(({ sealed }) => sealed === LIMITS.sweepRows).map(({ tenant }) => tenant);
  }
  return total;
}
