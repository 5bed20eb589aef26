/** How much of a conversation a model is sent. Pure. */
import { LIMITS } from './limits.ts';

/** Why messages are left out: the agent limits the conversation, or the model takes no more. */
export const CUT_REASONS = ['conversation_limit', 'context_window'] as const;

/** Limits of one model call, in tokens. */
export interface ContextLimits {
  /** What the model takes, prompt and answer together. */
  window: number;
  /** Most output; at most half the window. */
  output: number;
  /** System prompt and tools. */
  fixed: number;
  /** The agent's own limit of the conversation. */
  conversation: number | null;
}

/** Tokens that a conversation may have. */
export interface ContextRoom {
  /** Old turns are left out beyond these. */
  budget: number;
  reason: (typeof CUT_REASONS)[number];
  /** The current turn, which always stays, does not fit beyond these. */
  most: number;
}

/** The room that a model call has for the conversation. */
export function contextRoom({ window, output, fixed, conversation }: ContextLimits): ContextRoom {
  const most = Math.max(0, window - output - fixed);
  const fill = Math.floor((most * LIMITS.contextFillPercent) / 100);
  const isOwn = conversation !== null && conversation < fill;
  return { budget: isOwn ? conversation : fill, reason: isOwn ? 'conversation_limit' : 'context_window', most };
}

/** Most output of a model with such a window: the conversation needs room too. */
export function outputTokensWithin(window: number, wanted: number): number {
  return Math.min(wanted, Math.floor(window / 2));
}
