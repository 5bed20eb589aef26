/** How much of a conversation a model is sent. Pure. */
import { LIMITS } from './limits.ts';

/** Why messages are left out: the agent limits the conversation, or the model takes no more. */
export const CUT_REASONS = ['conversation_limit', 'context_window'] as const;

/** Limits of one model call, in tokens. */
interface ContextLimits {
  /** What the model takes, prompt and answer together. */
  window: number;
  /** Most output; at most half the window. */
  output: number;
  /** System prompt and tools. */
  fixed: number;
  /** The agent's own limit of the conversation. */
  conversation: number | null;
  /** Tokens that the model counts for 100 estimated ones. */
  percent?: number | undefined;
}

/** Tokens that a conversation may have, as they are estimated. */
export interface ContextRoom {
  /** Old turns are left out beyond these. */
  budget: number;
  reason: (typeof CUT_REASONS)[number];
  /** The current turn, which always stays, does not fit beyond these. */
  most: number;
  /** The budget where estimates are what the model counts: the calibration of a run only makes less of it. */
  limit: number;
}

/** The room that a model call has for the conversation. */
export function contextRoom({ percent = 100, ...limits }: ContextLimits): ContextRoom {
  const { most, fill, budget } = counted(limits, percent);
  const estimated = (tokens: number) => Math.floor((tokens * 100) / percent);
  return {
    budget: estimated(budget),
    reason: budget < fill ? 'conversation_limit' : 'context_window',
    most: estimated(most),
    limit: counted(limits, 100).budget,
  };
}

/** The same in tokens as the model counts them. */
function counted({ window, output, fixed, conversation }: Omit<ContextLimits, 'percent'>, percent: number) {
  const most = Math.max(0, window - output - Math.ceil((fixed * percent) / 100));
  const fill = Math.floor((most * LIMITS.contextFillPercent) / 100);
  return { most, fill, budget: Math.min(fill, conversation ?? fill) };
}

/** Most output of a model with such a window: the conversation needs room too. */
export function outputTokensWithin(window: number, wanted: number): number {
  return Math.min(wanted, Math.floor(window / 2));
}
