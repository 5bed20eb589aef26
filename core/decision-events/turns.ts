/** Events that begin, suspend and end a turn, and of each change of a run's status. */
import type { Decision } from '../decide.ts';
import type { Actor, NewEvent, RunStatus } from '../events.ts';
import type { QueuedMessage } from '../message-queue.ts';
import type { CallState, RunState } from '../state.ts';
import { isTaintedInput } from '../taint.ts';
import { mayBecome } from '../transitions.ts';
import { closeQuestions } from './approvals.ts';
import { completeCallBatch } from './call-batches.ts';

type StatusChanged = Extract<NewEvent, { type: 'run.status_changed' }>;

/** One event for each status on the way. Throws if a transition is not in the table. */
export function changeStatus({ status, turn }: Pick<RunState, 'status' | 'turn'>, ...way: RunStatus[]): NewEvent[] {
  return way.map((to, index) => statusChanged({ from: way[index - 1] ?? status, to, turnId: turn?.id }));
}

interface Change {
  from: RunStatus;
  to: RunStatus;
  turnId: string | undefined;
  actor?: Actor;
}

/** One change of status. Throws if the transition is not in the table. */
export function statusChanged({ from, to, turnId, actor = 'worker' }: Change): StatusChanged {
  if (!mayBecome(from, to)) throw new Error(`a run cannot go from ${from} to ${to}`);
  return { type: 'run.status_changed', actor, turn_id: turnId, payload: { from, to } };
}

/** The decision `begin_turn`. */
export function beginTurn(state: RunState): NewEvent[] {
  if (state.status === 'planning') return changeStatus(state, 'executing');
  if (state.status !== 'created') return changeStatus(state, 'planning', 'executing');
  return [...beginRun(state), statusChanged({ from: 'planning', to: 'executing', turnId: state.turn?.id })];
}

/** From the beginning of a run up to its first plan. */
export function beginRun(state: RunState): NewEvent[] {
  return [
    { type: 'run.started', actor: 'worker', turn_id: state.turn?.id, payload: {} },
    ...changeStatus(state, 'initializing', 'planning'),
  ];
}

/** The decision `await_calls`. `asking`: the node that asks for an approval. */
export function awaitCalls(state: RunState, asked: readonly CallState[], asking?: string): NewEvent[] {
  if (asked.length > 0) return awaitPeople(state, asked, asking);
  return state.status === 'awaiting_tool' ? [] : changeStatus(state, 'awaiting_tool');
}

/** The decision `await_people`: waits for a person, a webhook or time. `asking`: as above. */
export function awaitPeople(state: RunState, calls: readonly CallState[], asking?: string): NewEvent[] {
  if (state.status === 'awaiting_human') return [];
  const resumed = state.status === 'awaiting_tool' ? changeStatus(state, 'executing') : [];
  const from = resumed.length > 0 ? ('executing' as const) : state.status;
  const changed = statusChanged({ from, to: 'awaiting_human', turnId: state.turn?.id });
  return [...resumed, { ...changed, payload: { ...changed.payload, waiting_for: waitingFor(calls, asking) } }];
}

type WaitingFor = NonNullable<StatusChanged['payload']['waiting_for']>;

/** What to show as awaited: waits that somebody can act on come first (approval, question, webhook), time last. */
function waitingFor(calls: readonly CallState[], asking: string | undefined): WaitingFor {
  // If no call waits, a person is asked about a budget.
  const isAsked = (call: CallState) => call.status === 'awaiting_approval' || call.status === 'unknown';
  if (calls.length === 0) return { type: 'approval' };
  if (calls.some(isAsked)) return { type: 'approval', ...(asking !== undefined && { name: asking }) };
  for (const type of ['user', 'webhook', 'timer'] as const) {
    const wait = calls.find((call) => call.wait?.type === type)?.wait;
    if (wait) return { type, ...(wait.name !== null && { name: wait.name }) };
  }
  throw new Error('a run waits for nothing');
}

/** The decision `complete_turn`. The turn's event comes last, since it ends streams with `done`. */
export function completeTurn(
  state: RunState,
  end: Extract<Decision, { kind: 'complete_turn' }>,
  checkpointId: string | undefined,
): NewEvent[] {
  const by = { actor: 'worker' as const, turn_id: state.turn?.id };
  const { stopReason: stop_reason, ordinal, as: structured } = end;
  const tainted = state.turn?.untrusted && { untrusted: true as const };
  const reflecting = state.status === 'reflecting' ? [] : (['reflecting'] as const);
  const completed: NewEvent = { ...by, type: 'run.completed', payload: { stop_reason, output_ordinal: ordinal } };
  return [
    ...changeStatus(state, ...reflecting, state.keepOpen ? 'awaiting_human' : 'completed'),
    ...(state.keepOpen ? [] : [completed]),
    {
      ...by,
      type: 'turn.completed',
      payload: { stop_reason, ordinal, checkpoint_id: checkpointId, ...(structured && { structured }), ...tainted },
    },
  ];
}

/** The decision `fail_turn`, or a model failure. `ordinal`: the message to show with the error. */
export function failTurn(
  state: RunState,
  error: { code: string; message: string },
  ordinal: number | undefined,
): NewEvent[] {
  const by = { actor: 'worker' as const, turn_id: state.turn?.id };
  const failed: NewEvent = { ...by, type: 'run.failed', payload: { error } };
  return [
    ...closeQuestions(state),
    ...completeCallBatch(state),
    ...changeStatus(state, state.keepOpen ? 'awaiting_human' : 'failed'),
    ...(state.keepOpen ? [] : [failed]),
    { ...by, type: 'turn.failed', payload: { error, ...(ordinal !== undefined && { ordinal }) } },
  ];
}

/** The decision `take_queued`: the waiting message starts the turn `turnId`. */
export function takeQueued({ queued, turnCount }: Pick<RunState, 'queued' | 'turnCount'>, turnId: string): NewEvent[] {
  if (!queued) return [];
  const { id: message_id, input, requestedBy: requested_by } = queued;
  return [
    { type: 'message.dequeued', actor: 'system', turn_id: turnId, payload: { message_id, as: 'turn' } },
    {
      type: 'turn.started',
      actor: 'user',
      turn_id: turnId,
      payload: { number: turnCount + 1, input, ...(requested_by !== undefined && { requested_by }) },
    },
  ];
}

/** The open turn reads a message: `length` is that of the conversation with it. */
export function takeSteering({ turn }: RunState, { id, input }: QueuedMessage, length: number): NewEvent[] {
  const tainted = isTaintedInput(input) && { untrusted: true as const };
  const payload = { message_id: id, as: 'steer' as const, length, ...tainted };
  return [{ type: 'message.dequeued', actor: 'worker', turn_id: turn?.id, payload }];
}
