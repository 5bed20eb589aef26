/** Reads budgets for the API. */
import type { Caller } from '../../core/caller.ts';
import { notFound } from '../../core/errors.ts';
import { findBudget, listBudgets as readBudgets, type BudgetRow } from '../../db/budgets.ts';
import type { Tx } from '../../db/database.ts';

export { readBudgets };
export type { BudgetRow };

/** A budget visible to the caller. Throws 404. */
export async function requireBudget(tx: Tx, caller: Caller, id: string): Promise<BudgetRow> {
  const row = await findBudget(tx, id, caller.boundWorkspaceId);
  if (!row) throw notFound('This budget');
  return row;
}
