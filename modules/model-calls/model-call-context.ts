import type { RunLogContext } from '../run-log/run-log-context.ts';

/** Dependencies of Drover's own model calls. */
export interface ModelCallContext extends Pick<RunLogContext, 'db' | 'models' | 'metrics' | 'log' | 'config'> {
  /** Whether a budget applies (`modules/budgets/budget-cache.ts`). */
  budgets: { applyTo: (owner: { tenant_id: string; workspace_id: string; agent_id: string }) => Promise<boolean> };
}
