import { findUsedUp, type BudgetStanding } from '../../core/budget.ts';
import { readStandings } from '../../db/budgets.ts';
import type { Tx } from '../../db/database.ts';
import type { RunRow } from '../../db/claim-run.ts';

/** A run, or a possible run of this agent or of any. */
type BudgetedRun =
  | Pick<RunRow, 'tenant_id' | 'workspace_id' | 'id' | 'root_run_id' | 'agent_id' | 'config'>
  | (Pick<RunRow, 'tenant_id' | 'workspace_id'> & { agent_id: string | null });

/** The budget that currently stops a run's calls, if any. */
export async function findUsedUpBudget(tx: Tx, of: BudgetedRun): Promise<BudgetStanding | undefined> {
  const { tenant_id: tenantId, workspace_id, agent_id } = of;
  const { id: run_id = null, root_run_id = null, config = {} } = 'config' in of ? of : {};
  const { budget: run_budget, ancestors } = config;
  const owner = { tenant_id: tenantId, workspace_id, agent_id };
  return findUsedUp(await readStandings(tx, { ...owner, run_id, root_run_id, run_budget, ancestors }));
}
