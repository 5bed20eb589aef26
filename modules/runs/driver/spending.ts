/** What a driver's failed model calls cost: as metrics, and for the log and the reservation. */
import type { ModelError } from '../../../core/model.ts';
import { costOf } from '../../../llm/prices.ts';
import type { ResolvedModel } from '../../../llm/models.ts';
import { addSpent, tokensOf } from '../../budgets/hold-to-budget.ts';
import { countSpending } from '../../model-calls/count-spending.ts';
import type { Drive, Paid } from './drive-state.ts';

/** What an attempt has cost that gave no answer, as fields of its event. */
export function paidInVain(drive: Drive, { provider, model }: ResolvedModel, { usage, tiers }: ModelError): Paid {
  if (!usage) return {};
  const cost = costOf(provider, model, { ...usage, tiers });
  countSpending(drive.context, { provider, model, usage, cost });
  drive.step.inVain = addSpent(drive.step.inVain, { tokens: tokensOf(usage), cost_usd: cost });
  return { provider, usage, cost_usd: cost };
}
