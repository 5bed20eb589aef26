/** Keeps budgets' reservations and spending correct: settles those of lost drivers, and adds up settled ones. */
import { LIMITS } from '../../core/limits.ts';
import {
  listBudgetDrift,
  listReservingTenants,
  rollUpBudgets,
  settleLostReservations,
  type BudgetDrift,
} from '../../db/budgets.ts';
import { settleLostOwnCalls } from '../../db/own-model-calls.ts';
import type { Database } from '../../db/database.ts';
import { listTenantIds } from '../../db/tenants.ts';
import type { ProcessContext } from '../process-context.ts';
import { forEachTenant } from '../for-each-isolated.ts';

/** The longest wait for one of Drover's own calls. */
const OWN_CALL_MS = LIMITS.modelTimeoutMs + 60_000;

/** Returns how many reservations were settled at their estimate, and how many were added up. */
export async function settleBudgets({ db, config, log }: ProcessContext): Promise<{ settled: number; added: number }> {
  const tenants = await db.asMaintenance(listReservingTenants);
  const done = await forEachTenant(log, tenants, (tenant) =>
    db.withTenant(tenant, async (tx) => ({
      settled:
        (await settleLostReservations(tx, tenant, config.leaseMs)) +
        (await settleLostOwnCalls(tx, tenant, OWN_CALL_MS)),
      added: await rollUpBudgets(tx, tenant, LIMITS.budgetRollUpRows),
    })),
  );
  const sum = (what: 'settled' | 'added') => done.reduce((total, each) => total + each[what], 0);
  return { settled: sum('settled'), added: sum('added') };
}

/** Reservations and usage, of all tenants, that disagree with the model calls; empty if all is well. */
export async function findBudgetDrift(db: Database): Promise<BudgetDrift[]> {
  const drift: BudgetDrift[] = [];
  for (const tenantId of await db.asMaintenance(listTenantIds)) {
    drift.push(...(await db.withTenant(tenantId, (tx) => listBudgetDrift(tx, tenantId, LIMITS.settledDays - 1))));
  }
  return drift;
}
