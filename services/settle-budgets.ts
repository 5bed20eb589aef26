/** Keeps what is set aside and spent of budgets true: settles what lost drivers have left, adds up what has settled. */
import { LIMITS } from '../core/limits.ts';
import {
  listBudgetDrift,
  listReservingTenants,
  rollUpBudgets,
  settleLostReservations,
  type BudgetDrift,
} from '../db/budgets.ts';
import type { Database } from '../db/database.ts';
import { listTenantIds } from '../db/tenants.ts';
import type { Context } from '../engine/context.ts';

/** Answers how many reservations were settled at their estimate, and how many were added up. */
export async function settleBudgets({ db, config }: Context): Promise<{ settled: number; added: number }> {
  const done = { settled: 0, added: 0 };
  for (const tenant of await db.asMaintenance(listReservingTenants)) {
    await db.withTenant(tenant, async (tx) => {
      done.settled += await settleLostReservations(tx, tenant, config.leaseMs);
      done.added += await rollUpBudgets(tx, tenant, LIMITS.budgetRollUpRows);
    });
  }
  return done;
}

/** Reservations of all tenants that disagree with the model calls, and usage that disagrees with them: none, if all is well. */
export async function findBudgetDrift(db: Database): Promise<BudgetDrift[]> {
  const drift: BudgetDrift[] = [];
  for (const tenant of await db.asMaintenance(listTenantIds)) {
    drift.push(...(await db.withTenant(tenant, (tx) => listBudgetDrift(tx, tenant))));
  }
  return drift;
}
