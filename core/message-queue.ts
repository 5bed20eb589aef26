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
  /** The conversation goes to another agent once the turn has ended: what waits goes along. */
  isHandedOver?: boolean;
}

/** What an event means for the queue; undefined if it means nothing. */
export function queueChange(
  state: QueueState,
  event: RunEvent,
): { queued?: QueuedMessage | null; length?: number; steered?: number[]; isHandedOver?: true } | undefined {
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
    case 'handoff.initiated':
    case 'handoff.rejected':
      return isPassingOn(event) ? { isHandedOver: true } : undefined;
    default:
      return undefined;
  }
}

/** Whether the run's agent passes the conversation on, or back. That it has come back, the system says in the run in which it goes on; a task goes by itself. */
function isPassingOn({
  actor,
  payload,
}: Extract<RunEvent, { type: 'handoff.initiated' | 'handoff.rejected' }>): boolean {
  return actor === 'agent' && payload.task_id === undefined;
}

/** The open turn is over as it is, and hands nothing over. What the user said in it and no model has read is not forgotten. */
export function interrupted({ turn, unread = [], isHandedOver }: QueueState) {
  const ended = { turn: null, modelCall: null, calls: [], plan: null, ...(isHandedOver && { isHandedOver: false }) };
  return turn && !turn.begun ? { ...ended, unread: [...unread, turn.input] } : ended;
}
