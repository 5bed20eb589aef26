/** What is left of a run's own budget, for the run that goes on in its place. */
import type { BudgetStanding, RunBudget } from '../../core/budget.ts';
import { readStandings } from '../../db/budgets.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { Tx } from '../../db/database.ts';

/** A budget cannot be zero; with this little left, the first model call is refused. */
const LEAST = { tokens: 1, cost_usd: 0.000001, steps: 1 };

/**
 * The run's budget without what it counts: the run, what it repeats, and all below. What is set aside for calls under way
 * counts as used. Undefined for a run without a budget.
 */
export async function restOfBudget(
  tx: Tx,
  run: Pick<RunRow, 'tenant_id' | 'workspace_id' | 'agent_id' | 'id' | 'root_run_id' | 'config'>,
): Promise<RunBudget | undefined> {
  const { tenant_id, workspace_id, agent_id, id: run_id, root_run_id, config } = run;
  const { budget, ancestors } = config;
  if (!budget) return undefined;
  const of = { tenant_id, workspace_id, agent_id, run_id, root_run_id, run_budget: budget, ancestors };
  const standing = (await readStandings(tx, of)).find(({ key }) => key === 'run');
  const left = (limit: number, what: keyof typeof LEAST) => Math.max(LEAST[what], limit - usedOf(standing, what));
  const { max_tokens, max_cost_usd, max_steps } = budget;
  return {
    ...budget,
    ...(max_tokens !== undefined && { max_tokens: left(max_tokens, 'tokens') }),
    ...(max_cost_usd !== undefined && { max_cost_usd: left(max_cost_usd, 'cost_usd') }),
    ...(max_steps !== undefined && { max_steps: left(max_steps, 'steps') }),
  };
}

function usedOf(standing: BudgetStanding | undefined, what: keyof typeof LEAST): number {
  return standing ? standing.spent[what] + standing.open[what] : 0;
}
