/**
 * A session as clients see it: a fold over the events since the start of the turn, and nothing else, turns each logged
 * event into one frame or none. With one frame per event, clients can resume after any `seq`.
 */
import type { BusMessage } from '../../bus/bus.ts';
import { currentPayload, type EventType } from '../../core/events.ts';
import { toSessionSeq } from '../../core/session-position.ts';
import { ASK_USER_TOOL, highestRisk } from '../../core/tool.ts';
import type { LoggedEvent } from '../../modules/runs/read-runs.ts';
import { preview, previewOf } from './preview.ts';
import type { SessionFrame } from './session-frame.ts';
import { note, shownSteps, startTurn, type Payload, type TurnView } from './turn-view.ts';

/** Events of the fold. */
export const FOLDED: readonly EventType[] = [
  'run.created',
  'run.status_changed',
  'run.failed',
  'turn.started',
  'turn.completed',
  'turn.failed',
  'turn.interrupted',
  'message.queued',
  'model.called',
  'model.responded',
  'reflection.completed',
  'node.completed',
  'run.max_steps_reached',
  'tool.requested',
  'tool.started',
  'tool.succeeded',
  'tool.failed',
  'tool.denied',
  'tool.unknown',
  'tool.resolved',
  'plan.proposed',
  'plan.approved',
  'plan.rejected',
  'plan.refined',
  'plan.started',
  'plan.completed',
  'approval.requested',
  'approval.expired',
  'input.requested',
];

/** An event with its run's place on the session's thread. */
interface PlacedEvent {
  event: LoggedEvent;
  place: number;
}

type Shown = Pick<SessionFrame, 'type' | 'payload'> & { plan_id?: unknown; auto_executing?: unknown };

/** Returns the view after the event, and the frame for clients or null. Changes the given view. */
export function foldEvent(
  before: TurnView,
  { event, place }: PlacedEvent,
  sessionId: string,
): { turn: TurnView; frame: SessionFrame | null } {
  const payload = payloadOf(event);
  const turn = event.type === 'turn.started' ? startTurn(event, payload) : before;
  note(turn, event, payload);
  const shown = show(turn, { event, place }, payload);
  if (event.type === 'node.completed') turn.untold = '';
  if (!shown) return { turn, frame: null };
  const { type, plan_id, auto_executing, payload: told } = shown;
  const frame: SessionFrame = {
    type,
    session_id: sessionId,
    ...(typeof plan_id === 'string' && { plan_id }),
    ...(typeof auto_executing === 'boolean' && { auto_executing }),
    payload: told,
    timestamp: event.occurred_at.toISOString(),
    seq: toSessionSeq({ place, seq: event.seq }),
  };
  return { turn, frame };
}

/** The frame for a piece of an answer being written. */
export function deltaFrame(
  { delta, turnId: turn_id, step, at }: Extract<BusMessage, { kind: 'delta' }>,
  sessionId: string,
  now: Date,
): SessionFrame {
  const payload = { content: delta.text, turn_id, step, at };
  return { type: 'message_delta', session_id: sessionId, payload, timestamp: now.toISOString() };
}

/** The payload by this build's schema; of a newer build's, only the fields that are known here are shown. */
function payloadOf(event: LoggedEvent): Payload {
  const current = currentPayload(event);
  return typeof current === 'object' && current !== null ? { ...current } : {};
}

function show(turn: TurnView, { event, place }: PlacedEvent, payload: Payload): Shown | null {
  const { plan_id } = payload;
  switch (event.type) {
    case 'run.created':
      return place === 1 ? { type: 'session_created', payload: { agent_id: payload['agent_id'] } } : null;
    case 'turn.started':
      return place === 1 && turn.number === 1 ? null : { type: 'session_resumed', payload: { turn_id: event.turn_id } };
    case 'model.called':
      return planningStarted(turn, event);
    case 'model.responded':
      return payload['tool'] !== undefined || payload['tool_calls'] === 0 || turn.answer === ''
        ? null
        : { type: 'thinking', payload: { content: turn.answer } };
    case 'node.completed':
      return turn.isBetween && turn.untold !== '' ? { type: 'thinking', payload: { content: turn.untold } } : null;
    case 'plan.proposed':
      return planProposed(turn, payload);
    case 'plan.approved':
      return { type: 'plan_approved', plan_id, payload: {} };
    case 'plan.rejected':
      return { type: 'plan_rejected', plan_id, payload: { reason: payload['reason'] } };
    case 'plan.refined':
      return { type: 'plan_refined', plan_id, payload: { feedback: payload['feedback'] } };
    case 'plan.started':
      return { type: 'execution_started', plan_id, payload: {} };
    case 'approval.requested':
      return waitsForApproval(payload);
    case 'input.requested':
      return payload['type'] === 'user'
        ? { type: 'waiting_for_approval', payload: { kind: 'question', message: payload['question'] ?? '' } }
        : null;
    case 'message.queued':
      return payload['read_at'] === undefined ? messageQueued(payload) : null;
    default:
      return event.type.startsWith('tool.') ? showCall(turn, event, payload) : showEnd(turn, event, payload);
  }
}

function planningStarted(turn: TurnView, { turn_id }: LoggedEvent): Shown | null {
  if (turn.hasPlanned) return null;
  turn.hasPlanned = true;
  return { type: 'planning_started', payload: { turn_id } };
}

function planProposed(turn: TurnView, payload: Payload): Shown {
  const { plan_id, auto_executing, purpose } = payload;
  const shown = shownSteps(turn, payload);
  const steps = shown.map(({ tool_call_id, tool, risk_level }) => {
    return { tool, arguments: turn.calls.get(tool_call_id)?.arguments ?? {}, risk_level, tool_call_id };
  });
  const max_risk_level = highestRisk(shown.map((step) => step.risk_level));
  const told = { purpose, steps, max_risk_level, tool_count: steps.length };
  return { type: 'plan_proposed', plan_id, auto_executing, payload: told };
}

function waitsForApproval({ plan_id, approval_id, tool_call_id, kind, message }: Payload): Shown {
  const told = { message: message ?? 'A person is asked.', kind, approval_id, tool_call_id };
  return { type: 'waiting_for_approval', plan_id, payload: told };
}

function messageQueued({ message_id, mode, input }: Payload): Shown {
  const text = typeof input === 'object' && input !== null && 'message' in input ? String(input.message) : '';
  const will_process_after = mode === 'steer' ? 'current step completes' : 'current execution completes';
  return {
    type: 'message_queued',
    payload: { queued_message_preview: preview(text), will_process_after, message_id, mode },
  };
}

function showCall(turn: TurnView, event: LoggedEvent, payload: Payload): Shown | null {
  const tool_call_id = String(payload['tool_call_id']);
  const call = turn.calls.get(tool_call_id);
  const told = { step_index: call?.index, tool: event.call?.name ?? call?.tool, tool_call_id };
  const plan = call?.callBatchId === undefined ? {} : { plan_id: call.callBatchId };
  const error = messageIn(payload['error']);
  switch (event.type) {
    case 'tool.started':
      if (payload['attempt'] !== 1) return null;
      return { type: 'tool_call_started', ...plan, payload: { ...told, arguments: event.call?.arguments ?? {} } };
    case 'tool.denied':
      return { type: 'authorization_denied', ...plan, payload: { ...told, reason: error } };
    case 'tool.failed':
    case 'tool.unknown': {
      const retry_count = Math.max(0, Number(payload['attempts']) - 1);
      return { type: 'tool_call_failed', ...plan, payload: { ...told, error, retry_count } };
    }
    case 'tool.succeeded': {
      // A question is not shown as a tool call: its wait was shown.
      if (told.tool === ASK_USER_TOOL && !call?.startedAt) return null;
      const result = { duration_ms: payload['latency_ms'], result_preview: previewOf(event.call?.output) };
      return { type: 'tool_call_completed', ...plan, payload: { ...told, ...result } };
    }
    case 'tool.resolved': {
      // Including the time until somebody found out.
      const duration_ms = call?.startedAt ? event.occurred_at.getTime() - call.startedAt.getTime() : 0;
      const result = { duration_ms, result_preview: previewOf(event.call?.output) };
      return payload['outcome'] === 'succeeded'
        ? { type: 'tool_call_completed', ...plan, payload: { ...told, ...result } }
        : { type: 'tool_call_failed', ...plan, payload: { ...told, error, retry_count: 0 } };
    }
    default:
      return null;
  }
}

function answerReady(turn: TurnView, event: LoggedEvent): Shown {
  return { type: 'answer_ready', payload: { answer: turn.answer, ...figures(turn, event) } };
}

function showEnd(turn: TurnView, event: LoggedEvent, payload: Payload): Shown | null {
  switch (event.type) {
    case 'run.status_changed':
      return payload['to'] === 'reflecting' && !turn.isBetween && !turn.isReflecting ? answerReady(turn, event) : null;
    case 'reflection.completed':
      if (payload['last'] !== true) return { type: 'thinking', payload: { content: turn.answer } };
      return turn.isReflecting ? answerReady(turn, event) : null;
    case 'turn.completed': {
      const isWhole = turn.failed.size === 0 && !turn.batchHasFailed;
      const told = { stop_reason: payload['stop_reason'], ...figures(turn, event) };
      return { type: isWhole ? 'completed' : 'completed_with_errors', payload: told };
    }
    case 'turn.interrupted':
      // The refusal was shown already, and is what the user wanted.
      return payload['reason'] === 'reject' ? null : { type: 'interrupted', payload: { reason: payload['reason'] } };
    case 'turn.failed':
      return { type: 'error', payload: { message: messageIn(payload['error']), error: payload['error'] } };
    case 'run.failed':
      // If a turn was open, its own event follows.
      return event.turn_id === null
        ? { type: 'error', payload: { message: messageIn(payload['error']), error: payload['error'] } }
        : null;
    default:
      return null;
  }
}

function figures({ calls, startedAt }: TurnView, { occurred_at }: LoggedEvent) {
  return { tool_calls_count: calls.size, duration_ms: startedAt ? occurred_at.getTime() - startedAt.getTime() : 0 };
}

function messageIn(error: unknown): string {
  return typeof error === 'object' && error !== null && 'message' in error ? String(error.message) : '';
}
