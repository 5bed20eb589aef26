/** The queue of a run: one message that came while a turn was open, and those that no model has read yet. */
import type { RunEvent, TurnInput } from './events.ts';

export interface QueuedMessage {
  id: string;
  mode: 'queue' | 'steer';
  input: TurnInput;
  requestedBy?: string;
}

/** A message as `message.queued` has it. */
export function toQueued(payload: Extract<RunEvent, { type: 'message.queued' }>['payload']): QueuedMessage {
  const { message_id: id, mode, input, requested_by: requestedBy } = payload;
  return { id, mode, input, ...(requestedBy !== undefined && { requestedBy }) };
}

/** What of a run's state the queue is about. */
interface QueueState {
  turn: { begun: boolean; input: TurnInput } | null;
  /** The message that waits for its turn. */
  queued?: QueuedMessage | null;
  /** Messages of turns that were interrupted before the model had read them: the next turn begins with them. */
  unread?: TurnInput[];
  steered?: number[];
}

/** What an event means for the queue; undefined if it means nothing. */
export function queueChange(
  state: QueueState,
  event: RunEvent,
): { queued: QueuedMessage | null; length?: number; steered?: number[] } | undefined {
  switch (event.type) {
    case 'message.queued': {
      return { queued: toQueued(event.payload) };
    }
    case 'message.dequeued': {
      const { message_id: id, length, as } = event.payload;
      // A newer one may have come before the driver had committed what it took.
      const queued = state.queued?.id === id ? null : (state.queued ?? null);
      if (length === undefined) return { queued };
      return { queued, length, ...(as === 'steer' && { steered: [...(state.steered ?? []), length - 1] }) };
    }
    default:
      return undefined;
  }
}

/** The open turn is over as it is. What the user said in it and no model has read is not forgotten. */
export function interrupted({ turn, unread = [] }: QueueState) {
  const ended = { turn: null, modelCall: null, calls: [], plan: null };
  return turn && !turn.begun ? { ...ended, unread: [...unread, turn.input] } : ended;
}
