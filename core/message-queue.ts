/** The queue of a run: one message that came while a turn was open, and those that no model has read yet. */
import type { RunEvent, TurnInput } from './events.ts';
import type { RunState } from './state.ts';

export interface QueuedMessage {
  id: string;
  mode: 'queue' | 'steer';
  input: TurnInput;
  requestedBy: string | undefined;
}

/** What an event means for the queue; undefined if it means nothing. */
export function queueChange(state: RunState, event: RunEvent): Partial<RunState> | undefined {
  switch (event.type) {
    case 'message.queued': {
      const { message_id: id, mode, input, requested_by: requestedBy } = event.payload;
      return { queued: { id, mode, input, requestedBy } };
    }
    case 'message.dequeued': {
      const { message_id: id, length } = event.payload;
      // A newer one may have come before the driver had committed what it took.
      const queued = state.queued?.id === id ? null : (state.queued ?? null);
      return { queued, ...(length !== undefined && { length }) };
    }
    default:
      return undefined;
  }
}

/** The open turn is over as it is. What the user said in it and no model has read is not forgotten. */
export function interrupted({ turn, unread = [] }: RunState): Partial<RunState> {
  const ended = { turn: null, modelCall: null, calls: [], plan: null };
  return turn && !turn.begun ? { ...ended, unread: [...unread, turn.input] } : ended;
}
