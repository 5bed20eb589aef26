/** A run's message queue: one message that came during a turn, and those that no model has read yet. */
import type { RunEvent, TurnInput } from './events.ts';
import type { ReplayState } from './replay-state.ts';

export interface QueuedMessage {
  id: string;
  mode: 'queue' | 'steer';
  input: TurnInput;
  requestedBy?: string;
}

/** A message that the turn which a fork does again had read in the other run, at that place of the conversation. */
export interface ReadMessage extends QueuedMessage {
  readAt: number;
}

/** A message as `message.queued` has it. */
export function toQueued(payload: Extract<RunEvent, { type: 'message.queued' }>['payload']): QueuedMessage {
  const { message_id: id, mode, input, requested_by: requestedBy } = payload;
  return { id, mode, input, ...(requestedBy !== undefined && { requestedBy }) };
}

/** The part of a run's state that the queue depends on. */
interface QueueState {
  turn: { begun: boolean; input: TurnInput } | null;
  /** The message waiting for its turn. */
  queued?: QueuedMessage | null;
  /** Messages of turns interrupted before a model read them: they start the next turn. */
  unread?: TurnInput[];
  steered?: number[];
  /** What the turn had read in the run that this one was forked from, and is to read again. */
  toRead?: ReadMessage[];
  /** The conversation goes to another agent once the turn has ended: what waits goes along. */
  isHandedOver?: boolean;
}

/** How an event changes the queue; undefined if it does not. */
export function queueChange(
  state: QueueState,
  event: RunEvent,
): (Pick<QueueState, 'queued' | 'steered' | 'toRead' | 'isHandedOver'> & { length?: number }) | undefined {
  switch (event.type) {
    case 'message.queued': {
      const { read_at: readAt } = event.payload;
      if (readAt === undefined) return { queued: toQueued(event.payload) };
      return { toRead: [...(state.toRead ?? []), { ...toQueued(event.payload), readAt }] };
    }
    case 'message.dequeued': {
      const { message_id: id, length, as } = event.payload;
      // A newer message may have come before the driver committed the one it took.
      const queued = state.queued?.id === id ? null : (state.queued ?? null);
      if (length === undefined) return { queued };
      const toRead = state.toRead?.filter((message) => message.id !== id);
      const steered = [...(state.steered ?? []), length - 1];
      return { queued, length, ...(as === 'steer' && { steered }), ...(toRead && { toRead }) };
    }
    case 'handoff.initiated':
    case 'handoff.rejected':
      return isPassingOn(event) ? { isHandedOver: true } : undefined;
    default:
      return undefined;
  }
}

/**
 * Whether the run's agent hands the conversation on, or back. Handbacks reported by the system belong to the run that goes on;
 * handoffs of tasks do not move the conversation.
 */
function isPassingOn({
  actor,
  payload,
}: Extract<RunEvent, { type: 'handoff.initiated' | 'handoff.rejected' }>): boolean {
  return actor === 'agent' && payload.task_id === undefined;
}

/** The open turn is over as it is, and hands nothing over. What the user said in it and no model has read is not forgotten. */
export function interrupted(state: QueueState) {
  const { turn, unread = [], toRead = [], isHandedOver } = state;
  const over = { ...ended(state), plan: null, ...(isHandedOver && { isHandedOver: false }) };
  const said = [...(turn && !turn.begun ? [turn.input] : []), ...toRead.map(({ input }) => input)];
  return said.length > 0 ? { ...over, unread: [...unread, ...said] } : over;
}

/** The open turn is over. */
export function ended({ toRead }: Pick<QueueState, 'toRead'>) {
  return { turn: null, modelCall: null, calls: [], ...(toRead && { toRead: [] }) };
}

/** The message that the turn is to read again before its next model call, if any: all at once, unless the run still asks what its record asked. */
export function nextToRead(
  { toRead = [], replay, queued }: Pick<QueueState, 'toRead' | 'queued'> & { replay: ReplayState | null },
  length: number,
): ReadMessage | undefined {
  const [next] = toRead;
  // The answer of a step that is done again comes before.
  if (!next || replay?.redo) return undefined;
  const isAsRecorded = replay?.mode === 'recorded' && !replay.diverged && queued?.mode !== 'steer';
  return !isAsRecorded || next.readAt <= length ? next : undefined;
}
