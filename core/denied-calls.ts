/** Counts the calls of a turn that were denied: they are not made, and use up none of those that it may make. */
import type { CallState } from './call-state.ts';
import type { RunEvent } from './events.ts';

export interface DeniedCalls {
  /** Of the turn with this id. */
  deniedCalls?: { turnId: string; count: number };
}

interface Turn {
  id: string;
  /** All that were asked for. */
  toolCalls: number;
}

/** The count after an event; empty if it denies no call of the current step. */
export function countDenied(
  state: DeniedCalls & { turn: Turn | null; calls: readonly CallState[] },
  event: RunEvent,
): DeniedCalls {
  if (event.type !== 'tool.denied' || !state.turn) return {};
  const call = state.calls.find(({ id }) => id === event.payload.tool_call_id);
  if (!call || call.status === 'denied') return {};
  return { deniedCalls: { turnId: state.turn.id, count: deniedIn(state) + 1 } };
}

/** The turn's calls that were made, or may still be. */
export function callsMade(state: DeniedCalls & { turn: Turn | null }): number {
  return state.turn ? state.turn.toolCalls - deniedIn(state) : 0;
}

function deniedIn({ turn, deniedCalls }: DeniedCalls & { turn: Turn | null }): number {
  return deniedCalls?.turnId === turn?.id ? (deniedCalls?.count ?? 0) : 0;
}
