/** How events change which part of a conversation models are sent. */
import type { Compaction } from './compaction.ts';
import type { RunEvent } from './events.ts';

type ContextEvent = Extract<RunEvent, { type: 'context.compacted' | 'context.transformed' }>;

/** What is left out at the beginning: the token budget that it was cut for, and the estimated tokens that are left out. */
export interface ContextCut {
  budgetTokens: number;
  droppedTokens: number;
  /** As the thread's last run left it; this run's own log does not say so yet. */
  isInherited?: true;
}

/** A part of the run's state. */
export interface ContextState {
  firstKept: number;
  cut: ContextCut;
  compaction?: Compaction;
}

/** The cut with which a run begins. */
export function inheritedCut(cut: {
  first_kept_ordinal: number;
  dropped_tokens: number;
  budget_tokens: number;
}): Pick<ContextState, 'firstKept' | 'cut'> {
  const { first_kept_ordinal: firstKept, dropped_tokens: droppedTokens, budget_tokens: budgetTokens } = cut;
  return { firstKept, cut: { budgetTokens, droppedTokens, isInherited: true } };
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
