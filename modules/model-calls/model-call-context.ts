import type { RunLogContext } from '../run-log/run-log-context.ts';

/** What asking a model for Drover itself takes. */
export interface ModelCallContext extends Pick<RunLogContext, 'db' | 'models' | 'metrics' | 'log'> {
  /** Whether a budget applies (`modules/budgets/budget-cache.ts`). */
  budgets: { applyTo: (owner: { tenant_id: string; workspace_id: string; agent_id: string }) => Promise<boolean> };
}
