/** Computes how much of a conversation a model is sent. Pure. */
import { LIMITS } from './limits.ts';

/** Why messages are left out: the agent's limit on the conversation, or the model's context window. */
export const CUT_REASONS = ['conversation_limit', 'context_window'] as const;

/** Limits of one model call, in tokens. */
interface ContextLimits {
  /** The model's context window: prompt and answer together. */
  window: number;
  /** Maximum output; at most half the window. */
  output: number;
  /** System prompt and tools. */
  fixed: number;
  /** The agent's own limit on the conversation; null for none. */
  conversation: number | null;
  /** The model's token count per 100 estimated tokens. */
  percent?: number | undefined;
}

/** Room for a conversation, in estimated tokens. */
export interface ContextRoom {
  /** Beyond this, old turns are left out. */
  budget: number;
  reason: (typeof CUT_REASONS)[number];
  /** A current turn beyond this does not fit; it is never left out. */
  most: number;
  /** The agent's own limit, in tokens as the model counts them, if `most` is that; otherwise null. */
  agentLimit: number | null;
  /** The budget if estimates were exact: a run's calibration can only lower it. */
  limit: number;
}

/** The room for the conversation in a model call. */
export function contextRoom({ percent = 100, ...limits }: ContextLimits): ContextRoom {
  const { most, fill, budget, agentLimit } = counted(limits, percent);
  const estimated = (tokens: number) => Math.floor((tokens * 100) / percent);
  return {
    budget: estimated(budget),
    reason: budget < fill ? 'conversation_limit' : 'context_window',
    most: estimated(agentLimit ?? most),
    agentLimit,
    limit: counted(limits, 100).budget,
  };
}

/** The limits in tokens as the model counts them. */
function counted({ window, output, fixed, conversation }: Omit<ContextLimits, 'percent'>, percent: number) {
  const most = Math.max(0, window - output - Math.ceil((fixed * percent) / 100));
  const fill = Math.floor((most * LIMITS.contextFillPercent) / 100);
  const agentLimit = conversation !== null && conversation < most ? conversation : null;
  return { most, fill, budget: Math.min(fill, conversation ?? fill), agentLimit };
}

/** Caps the output at half the window, since the conversation needs room, too. */
export function outputTokensWithin(window: number, wanted: number): number {
  return Math.min(wanted, Math.floor(window / 2));
}
