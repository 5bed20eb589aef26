/** Budgets: what a run, a workspace, an agent or a tenant may spend on models. Pure. */
import { z } from 'zod';

/** Default soft limit, as a share of the limit. */
export const DEFAULT_SOFT_LIMIT = 0.8;

const tokens = z.int().min(1).max(1_000_000_000_000);
const costUsd = z.number().positive().max(1_000_000_000);

/** Fields that every kind of budget has. */
export const budgetLimits = {
  max_tokens: tokens.optional().describe('Tokens in and out, cached ones included.'),
  max_cost_usd: costUsd.optional().describe('Calls of models whose price is not known count as nothing.'),
  soft_limit: z.number().gt(0).max(1).optional().describe('Share of a limit, 0.8 where absent.'),
  on_soft_limit: z.enum(['warn', 'ask']).optional().describe('`warn` where absent.'),
};

/** `config.budget` of a run: for the run, its retries and replays, and its children together. */
export const runBudget = z
  .strictObject({ ...budgetLimits, max_steps: z.int().min(1).max(1_000_000).optional().describe('Model calls.') })
  .refine((budget) => budget.max_tokens ?? budget.max_cost_usd ?? budget.max_steps, {
    message: 'names no limit: max_tokens, max_cost_usd or max_steps',
  })
  .meta({ id: 'RunBudget' });
export type RunBudget = z.output<typeof runBudget>;

/** A budget at one moment. `spent` is settled; `open` is reserved for calls under way. Money is a decimal, in USD. */
export interface BudgetStanding {
  /** `run`, or the budget's id and the first day of its period. Each key is warned of once. */
  key: string;
  budget_id: string | null;
  name: string | null;
  max_tokens: number | null;
  max_cost_usd: number | null;
  max_steps: number | null;
  soft_limit: number | null;
  on_soft_limit: 'warn' | 'ask' | null;
  spent: { tokens: number; cost_usd: number; steps: number };
  open: { tokens: number; cost_usd: number; steps: number };
}

/** The largest share of any of its limits that is spent; 1 is all of it. */
export function shareSpent({ spent, max_tokens, max_cost_usd, max_steps }: BudgetStanding): number {
  return Math.max(
    max_tokens ? spent.tokens / max_tokens : 0,
    max_cost_usd ? spent.cost_usd / max_cost_usd : 0,
    max_steps ? spent.steps / max_steps : 0,
  );
}

/** The standing after one more settled model call: its tokens, and its cost in USD where the price is known. */
export function withCall(standing: BudgetStanding, used: { tokens: number; cost_usd: number }): BudgetStanding {
  const { spent } = standing;
  return {
    ...standing,
    spent: {
      tokens: spent.tokens + used.tokens,
      cost_usd: spent.cost_usd + used.cost_usd,
      steps: spent.steps + 1,
    },
  };
}

/** The first budget without tokens or money left. Steps are ignored: the last step still has its tool calls to make. */
export function findUsedUp(standings: readonly BudgetStanding[]): BudgetStanding | undefined {
  return standings.find((standing) => shareSpent({ ...standing, max_steps: null }) >= 1);
}

/** Tokens of a model call with their cost in USD, null if the price is not known; `least` of its output make it worthwhile. */
interface WantedCall {
  input: number;
  input_cost: string | null;
  output: number;
  output_cost: string | null;
  least: number;
}

/** What a model call lacks in a budget without room for it, to follow a colon; undefined if calls under way alone take the room. */
export function lackOf(
  { max_tokens, max_cost_usd, max_steps, spent }: BudgetStanding,
  { input, input_cost, output, output_cost, least }: WantedCall,
): string | undefined {
  const needed = input + least;
  const cost =
    input_cost === null || output_cost === null ? 0 : Number(input_cost) + (Number(output_cost) * least) / output;
  if (max_steps !== null && spent.steps >= max_steps) return `all ${shown(max_steps)} calls are made`;
  if (max_tokens !== null && spent.tokens + needed > max_tokens) {
    return need(needed, 'tokens', { most: max_tokens, spent: spent.tokens });
  }
  if (max_cost_usd !== null && spent.cost_usd + cost > max_cost_usd) {
    return need(cost, 'USD', { most: max_cost_usd, spent: spent.cost_usd });
  }
  return undefined;
}

function need(needed: number, unit: string, { most, spent }: { most: number; spent: number }): string {
  const left = Math.max(0, most - spent);
  return `it needs about ${shown(needed)} ${unit}, and ${shown(left)} of ${shown(most)} ${left === 1 ? 'is' : 'are'} left`;
}

/** With commas, and three digits of what is less than one. */
function shown(amount: number): string {
  return amount.toLocaleString('en-US', amount < 1 ? { maximumSignificantDigits: 3 } : {});
}

/** Budgets that have passed their soft limit and were not warned of yet. */
export function passedSoftLimits(standings: readonly BudgetStanding[], warned: readonly string[]): BudgetStanding[] {
  return standings.filter(
    (standing) => shareSpent(standing) >= (standing.soft_limit ?? DEFAULT_SOFT_LIMIT) && !warned.includes(standing.key),
  );
}
