/** A turn's usage, as shown with conversations. */
import { shownMoney, sumMoney } from '../../core/money.ts';
import type { TurnAnswer } from '../../db/turn-contents.ts';
import { costsOf, isLongContext } from '../../llm/prices.ts';

export interface Spending {
  usage: {
    input_tokens: number;
    output_tokens: number;
    cache_creation_input_tokens: number;
    cache_read_input_tokens: number;
  };
  cost: {
    input_cost: number | null;
    output_cost: number | null;
    cache_write_cost: number | null;
    cache_read_cost: number | null;
    /** Null if the price of a call is unknown. */
    total_cost: number | null;
    total_input_tokens: number;
    total_output_tokens: number;
    total_cache_creation_tokens: number;
    total_cache_read_tokens: number;
    /** The last model that answered. */
    model_id: string | null;
    long_context_applied: boolean;
    currency: 'USD';
  };
}

/**
 * Sums up the answers of a turn, without those that a replay took from its record, where they were paid for. For answers of
 * older builds, costs are split by current list prices.
 */
export function spendingOf(answers: readonly TurnAnswer[]): Spending {
  const paid = answers.filter(({ recorded }) => recorded !== true);
  const tokens = (of: (answer: TurnAnswer) => number) => paid.reduce((sum, answer) => sum + of(answer), 0);
  const input = tokens(({ usage }) => usage.input);
  const output = tokens(({ usage }) => usage.output);
  const written = tokens(({ usage }) => usage.cache_write_5m + usage.cache_write_1h);
  const read = tokens(({ usage }) => usage.cache_read);
  const costs = paid.map(costsIn);
  const cost = (kind: keyof Costs) => shownMoney(sumMoney(costs.map((each) => each?.[kind] ?? null)));
  return {
    usage: {
      input_tokens: input,
      output_tokens: output,
      cache_creation_input_tokens: written,
      cache_read_input_tokens: read,
    },
    cost: {
      input_cost: cost('input'),
      output_cost: cost('output'),
      cache_write_cost: cost('cache_write'),
      cache_read_cost: cost('cache_read'),
      total_cost: shownMoney(sumMoney(paid.map(({ cost_usd }) => cost_usd))),
      total_input_tokens: input,
      total_output_tokens: output,
      total_cache_creation_tokens: written,
      total_cache_read_tokens: read,
      model_id: answers.at(-1)?.model ?? null,
      long_context_applied: paid.some(isLong),
      currency: 'USD',
    },
  };
}

/** As recorded when the call was paid for, whatever prices are now; derived for older logs, which lack it. */
function isLong({ provider, model, usage, costs, long_context: long }: TurnAnswer): boolean {
  return long ?? (costs === undefined && isLongContext(provider, model, usage));
}

type Costs = NonNullable<TurnAnswer['costs']>;

const FREE: Costs = { input: '0', output: '0', cache_read: '0', cache_write: '0' };

function costsIn({ costs, cost_usd, provider, model, usage }: TurnAnswer): Costs | undefined {
  if (costs) return costs;
  if (cost_usd === null) return undefined;
  return Number(cost_usd) === 0 ? FREE : costsOf(provider, model, usage);
}
