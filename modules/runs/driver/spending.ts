/** What a driver's model calls cost: as metrics, and for failed attempts also for the log and the reservation. */
import type { ModelError, TokenUsage } from '../../../core/model.ts';
import { costOf } from '../../../llm/prices.ts';
import type { ResolvedModel } from '../../../llm/models.ts';
import { addSpent, tokensOf } from '../../budgets/hold-to-budget.ts';
import type { Drive, Paid } from './drive-state.ts';

/** Counts a call's tokens, and its cost if known. */
export function countSpending(
  { metrics }: Drive['context'],
  { model, usage, cost }: { model: string; usage: TokenUsage; cost: string | null },
): void {
  metrics.tokens.inc({ model, kind: 'input' }, usage.input);
  metrics.tokens.inc({ model, kind: 'output' }, usage.output);
  metrics.tokens.inc({ model, kind: 'cache_read' }, usage.cache_read);
  metrics.tokens.inc({ model, kind: 'cache_write' }, usage.cache_write_5m + usage.cache_write_1h);
  if (cost !== null) metrics.costUsd.inc({ model }, Number(cost));
}

/** What an attempt has cost that gave no answer, as fields of its event. */
export function paidInVain(drive: Drive, { provider, model }: ResolvedModel, { usage, tiers }: ModelError): Paid {
  if (!usage) return {};
  const cost = costOf(provider, model, { ...usage, tiers });
  countSpending(drive.context, { model, usage, cost });
  drive.step.inVain = addSpent(drive.step.inVain, { tokens: tokensOf(usage), cost_usd: cost });
  return { provider, usage, cost_usd: cost };
}
