/** How events change which part of a conversation models are sent. */
import type { Compaction } from './compaction.ts';
import type { RunEvent } from './events.ts';

type ContextEvent = Extract<RunEvent, { type: 'context.compacted' | 'context.transformed' }>;

/** A part of the run's state. */
export interface ContextState {
  firstKept: number;
  cut: { budgetTokens: number; droppedTokens: number };
  compaction?: Compaction;
}

/** Where the sent conversation starts now, and what replaces the messages before. */
export function contextChange({ type, payload }: ContextEvent): ContextState {
  const { first_kept_ordinal: firstKept, budget_tokens: budgetTokens, dropped_tokens: droppedTokens } = payload;
  const cut = { firstKept, cut: { budgetTokens, droppedTokens } };
  if (type === 'context.transformed') return cut;
  const { summary, cleared_before, cleared_tokens } = payload;
  const compaction: Compaction = {
    first_kept_ordinal: firstKept,
    ...(summary !== undefined && { summary }),
    ...(cleared_before !== undefined && { cleared_before, cleared_tokens }),
  };
  return { ...cut, compaction };
}
