/** What model calls have used and cost, as metrics. */
import { LIMITS } from '../../core/limits.ts';
import type { TokenUsage } from '../../core/model.ts';
import { hasListPrice } from '../../llm/prices.ts';
import type { Metrics } from '../metrics.ts';

export interface Spent {
  provider: string;
  model: string;
  usage: TokenUsage;
  cost: string | null;
}

/** Counts a call's tokens, and its cost if known. */
export function countSpending({ metrics }: { metrics: Metrics }, { usage, cost, ...named }: Spent): void {
  const model = labelOf(metrics.namedModels, named);
  metrics.tokens.inc({ model, kind: 'input' }, usage.input);
  metrics.tokens.inc({ model, kind: 'output' }, usage.output);
  metrics.tokens.inc({ model, kind: 'cache_read' }, usage.cache_read);
  metrics.tokens.inc({ model, kind: 'cache_write' }, usage.cache_write_5m + usage.cache_write_1h);
  if (cost !== null) metrics.costUsd.inc({ model }, Number(cost));
}

/**
 * A model without a list price may be one of an operator's own server, or any name that a client gives to a server which takes
 * all: the first ones have series of their own, which stay as long as the process.
 */
function labelOf(named: Set<string>, { provider, model }: Pick<Spent, 'provider' | 'model'>): string {
  if (hasListPrice(provider, model) || named.has(model)) return model;
  if (named.size >= LIMITS.modelSeries) return 'other';
  named.add(model);
  return model;
}
