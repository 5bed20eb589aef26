/** A turn's usage, as shown with conversations. */
import { shownMoney, sumMoney } from '../../core/money.ts';
import type { TurnModelCall } from '../../db/turn-contents.ts';
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
    /** The last model that answered; if none did, the last one whose answer was broken off. */
    model_id: string | null;
    long_context_applied: boolean;
    currency: 'USD';
  };
}

/**
 * Sums up the model calls of a turn, without answers that a replay took from its record, where they were paid for. For what was
 * broken off, and for answers of older builds, costs are split by current list prices.
 */
export function spendingOf(calls: readonly TurnModelCall[]): Spending {
  const paid = calls.filter(({ recorded }) => recorded !== true);
  const tokens = (of: (call: TurnModelCall) => number) => paid.reduce((sum, call) => sum + of(call), 0);
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
      total_cost: shownMoney(sumMoney(paid.map(({ cost_usd }) => cost_usd ?? null))),
      total_input_tokens: input,
      total_output_tokens: output,
      total_cache_creation_tokens: written,
      total_cache_read_tokens: read,
      model_id: (calls.findLast(({ is_answer: isAnswer }) => isAnswer) ?? calls.at(-1))?.model ?? null,
      long_context_applied: paid.some(isLong),
      currency: 'USD',
    },
  };
}

/** As recorded when the call was paid for, whatever prices are now; else derived. */
function isLong({ provider, model, usage, costs, long_context: long }: TurnModelCall): boolean {
  return long ?? (costs === undefined && provider !== undefined && isLongContext(provider, model, usage));
}

type Costs = NonNullable<TurnModelCall['costs']>;

const FREE: Costs = { input: '0', output: '0', cache_read: '0', cache_write: '0' };

function costsIn({ costs, cost_usd: cost = null, provider, model, usage }: TurnModelCall): Costs | undefined {
  if (costs) return costs;
  if (cost === null) return undefined;
  if (Number(cost) === 0) return FREE;
  return provider === undefined ? undefined : costsOf(provider, model, usage);
}
