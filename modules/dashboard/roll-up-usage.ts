/** Adds ended runs to daily sums, so that dashboards stay fast however many there are. */
import { LIMITS } from '../../core/limits.ts';
import { listUnrolledTenants, rollUpUsage } from '../../db/dashboard.ts';
import { forEachTenant } from '../for-each-isolated.ts';
import type { ProcessContext } from '../process-context.ts';

/** Returns the number of runs added. */
export async function rollUpRuns({ db, log }: Pick<ProcessContext, 'db' | 'log'>): Promise<number> {
  const tenants = await db.asMaintenance(listUnrolledTenants);
  const added = await forEachTenant(log, tenants, (tenant) =>
    db.withTenant(tenant, (tx) => rollUpUsage(tx, tenant, LIMITS.sweepRows)),
  );
  return added.reduce((sum, each) => sum + each, 0);
}
