/** Shortens conversations otherwise than by dropping the oldest messages. Pure. */
import { z } from 'zod';

/** Drover's own tool by which a model gives the summary. */
export const SUMMARY_TOOL = 'submit_summary';

/** `memory_config.short_term.strategy`. `fifo` drops the oldest turns, which is also the fallback of the others. */
export const STRATEGIES = ['fifo', 'summarize', 'hybrid', 'tool_result_removal'] as const;
export type Strategy = (typeof STRATEGIES)[number];

/** What replaces the beginning of a conversation, as logged. */
export const compaction = z.object({
  /** The first message sent unchanged. */
  first_kept_ordinal: z.int().min(0),
  /** Sent in place of the messages before it. */
  summary: z.string().optional(),
  /** In messages before this one, results of at least `cleared_tokens` estimated tokens are replaced by handles. */
  cleared_before: z.int().min(0).optional(),
  cleared_tokens: z.int().min(0).optional(),
});
export type Compaction = z.output<typeof compaction>;

/** A message in the form in which models get it now. */
export interface Part {
  ordinal: number;
  /** Estimated. */
  tokens: number;
  startsTurn: boolean;
  /** Tokens of each of its results that is not replaced yet. */
  results: readonly number[];
}

/** Smaller results, in tokens, stay: a handle costs about as much. */
const SET_ASIDE: Record<Exclude<Strategy, 'fifo'>, number> = {
  summarize: 1000,
  hybrid: 200,
  tool_result_removal: 200,
};

/** Tokens of a handle, and tokens reserved for a summary. */
const HANDLE_TOKENS = 60;
const SUMMARY_TOKENS = 1024;

/** Percentage of the budget to fill, so that the next compaction is a while away. */
const TARGET_PERCENT = 60;

interface Compacting {
  strategy: Strategy;
  /** Starts with the first message sent now. */
  parts: readonly Part[];
  current: Compaction | undefined;
  /** Token budget of the conversation, and its current tokens. */
  budget: number;
  tokens: number;
}

/**
 * Plans how to shorten a conversation that exceeds its budget. First replaces results by handles, oldest first, except in the
 * last message with results. If that does not suffice and the strategy summarises, whole turns are marked for a summary,
 * oldest first, never the last one. Undefined if nothing needs to or can be done; the oldest turns are then dropped.
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

/** Ordinal of the first turn with at least that many tokens before it; otherwise that of the last turn. */
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
