/** How a conversation is made shorter than it is, beyond leaving out what is oldest. Pure. */
import { z } from 'zod';

/** `memory_config.short_term.strategy`. `fifo` leaves out the oldest turns, and does so where the others do not suffice. */
export const STRATEGIES = ['fifo', 'summarize', 'hybrid', 'tool_result_removal'] as const;
export type Strategy = (typeof STRATEGIES)[number];

/** What takes the place of the beginning of a conversation, as the log has it. */
export const compaction = z.object({
  /** The first message that is sent as it is. */
  first_kept_ordinal: z.int().min(0),
  /** What is sent in place of those before it. */
  summary: z.string().optional(),
  /** Results in messages before this one are set aside that have at least so many tokens, estimated. */
  cleared_before: z.int().min(0).optional(),
  cleared_tokens: z.int().min(0).optional(),
});
export type Compaction = z.output<typeof compaction>;

/** A message as a model is sent it now. */
export interface Part {
  ordinal: number;
  /** Estimated. */
  tokens: number;
  startsTurn: boolean;
  /** Tokens of its results that are not set aside yet. */
  results: readonly number[];
}

/** Results smaller than this many tokens stay: a handle costs about as much. */
const SET_ASIDE: Record<Exclude<Strategy, 'fifo'>, number> = {
  summarize: 1000,
  hybrid: 200,
  tool_result_removal: 200,
};

/** Tokens of what stands in place of a result that is set aside, and those that are kept free for a summary. */
const HANDLE_TOKENS = 60;
const SUMMARY_TOKENS = 1024;

/** Share of the budget that is filled afterwards, in percent: the next compaction is then a while away. */
const TARGET_PERCENT = 60;

interface Compacting {
  strategy: Strategy;
  /** From the first message that is sent now. */
  parts: readonly Part[];
  current: Compaction | undefined;
  /** Tokens that the conversation may have, and those that it has. */
  budget: number;
  tokens: number;
}

/**
 * What to do about a conversation that is longer than its budget: results are set aside from the oldest on, the latest
 * ones excepted; where that is not enough and the strategy summarises, the oldest turns are to be summarised, whole ones,
 * and never the last. Undefined where nothing is to be done, or can be: then the oldest turns are left out.
 */
export function planCompaction({ strategy, parts, current, budget, tokens }: Compacting): Compaction | undefined {
  const [first] = parts;
  if (strategy === 'fifo' || tokens <= budget || !first) return undefined;
  const target = Math.floor((budget * TARGET_PERCENT) / 100);
  const least = SET_ASIDE[strategy];
  const lastResults = parts.findLast(({ results }) => results.length > 0)?.ordinal ?? 0;
  let left = tokens;
  let clearedBefore = current?.cleared_before ?? 0;
  for (const { ordinal, results } of parts) {
    if (left <= target || ordinal >= lastResults) break;
    const large = results.filter((size) => size >= least);
    if (large.length === 0) continue;
    left -= large.reduce((sum, size) => sum + size - HANDLE_TOKENS, 0);
    clearedBefore = ordinal + 1;
  }
  const summarises = strategy === 'summarize' ? left > target : strategy === 'hybrid' && left > budget;
  const from = summarises ? cutAt(parts, left - target + SUMMARY_TOKENS) : first.ordinal;
  const isSame = from === first.ordinal && clearedBefore === (current?.cleared_before ?? 0);
  if (isSame) return undefined;
  return {
    ...current,
    first_kept_ordinal: from,
    ...(clearedBefore > 0 && { cleared_before: clearedBefore, cleared_tokens: least }),
  };
}

/** The turn before which messages have so many tokens together; the last one where none is. */
function cutAt(parts: readonly Part[], tokens: number): number {
  let before = 0;
  let from = parts[0]?.ordinal ?? 0;
  for (const [index, part] of parts.entries()) {
    if (part.startsTurn && index > 0) {
      from = part.ordinal;
      if (before >= tokens) break;
    }
    before += part.tokens;
  }
  return from;
}
