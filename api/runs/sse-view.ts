/** A run's stream as clients see it: a pure function turns each logged event into one server-sent event or none. */
import type { BusMessage } from '../../bus/bus.ts';
import { textOf } from '../../core/content.ts';
import { dataOf, READINGS } from '../../core/output-format.ts';
import { currentPayload, type EventType } from '../../core/events.ts';
import { cancelledError, STOPPED } from '../../core/projections/turns.ts';
import type { LoggedEvent } from '../../modules/runs/read-runs.ts';

export interface SseEvent {
  /** The event's sequence number; absent if it is not in the log. */
  id?: number;
  event:
    | 'thought'
    | 'tool_call'
    | 'tool_progress'
    | 'tool_result'
    | 'approval'
    | 'plan'
    | 'task'
    | 'message'
    | 'status'
    | 'turn_error'
    | 'done';
  data: Record<string, unknown>;
}

/** Events to stream. */
export const SHOWN: readonly EventType[] = [
  'run.status_changed',
  'run.failed',
  'model.responded',
  'model.deferred',
  'model.resumed',
  'node.entered',
  'node.completed',
  'tool.requested',
  'tool.succeeded',
  'tool.failed',
  'tool.denied',
  'tool.unknown',
  'tool.resolved',
  'plan.proposed',
  'plan.approved',
  'plan.rejected',
  'plan.started',
  'plan.completed',
  'workflow.planned',
  'workflow.concluded',
  'task.assigned',
  'task.completed',
  'task.failed',
  'task.retried',
  'task.cancelled',
  'approval.requested',
  'approval.granted',
  'client_tools.requested',
  'turn.completed',
  'turn.failed',
  'turn.interrupted',
];

/** A logged event for clients; null if it is not shown. */
export function toSse(event: LoggedEvent): SseEvent | null {
  const view = viewOf(event);
  if (!view) return null;
  const place = { ...(event.turn_id && { turn_id: event.turn_id }), ...(event.step !== null && { step: event.step }) };
  return { id: event.seq, event: view.event, data: { ...view.data, ...place } };
}

/** An unlogged hint for clients: a piece of an answer, or a call's progress. */
export function hintToSse(hint: Extract<BusMessage, { kind: 'delta' | 'progress' }>): SseEvent {
  const { turnId: turn_id } = hint;
  if (hint.kind === 'delta') {
    return { event: 'message', data: { content: hint.delta.text, done: false, turn_id, step: hint.step, at: hint.at } };
  }
  const { tool, callId: tool_call_id, progress, total, message } = hint;
  return { event: 'tool_progress', data: { tool, tool_call_id, progress, total, message, turn_id } };
}

type View = Pick<SseEvent, 'event' | 'data'> | null;

function viewOf(event: LoggedEvent): View {
  const payload = payloadOf(event);
  switch (event.type) {
    case 'run.status_changed':
      return { event: 'status', data: { status: payload['to'], from: payload['from'] } };
    case 'run.failed':
      // Not `error`, which an `EventSource` dispatches itself when its connection breaks.
      return { event: 'turn_error', data: { error: payload['error'] } };
    case 'model.responded':
      if (payload['tool'] !== undefined) return null;
      return payload['tool_calls'] === 0 ? answer(event) : thought(event);
    case 'model.deferred':
      return { event: 'status', data: { status: 'executing', waiting_for: providerWait(payload) } };
    case 'model.resumed':
      return { event: 'status', data: { status: 'executing', waiting_for: null } };
    case 'node.entered':
    case 'node.completed':
      return nodeView(event, payload);
    case 'tool.requested':
      return toolCall(event, payload);
    case 'tool.succeeded':
    case 'tool.failed':
    case 'tool.denied':
    case 'tool.unknown':
    case 'tool.resolved':
      return toolResult(event, payload);
    case 'plan.proposed':
    case 'plan.approved':
    case 'plan.rejected':
    case 'plan.started':
    case 'plan.completed':
      return { event: 'plan', data: { ...payload, status: payload['status'] ?? event.type.slice('plan.'.length) } };
    case 'workflow.planned':
      return { event: 'task', data: { status: 'pending', tasks: payload['tasks'] } };
    case 'workflow.concluded':
      return answer(event);
    case 'task.assigned':
      return task('in_progress', payload);
    case 'task.retried':
      return task('pending', payload);
    case 'task.completed':
    case 'task.failed':
    case 'task.cancelled':
      return task(event.type.slice('task.'.length), payload);
    case 'approval.requested':
    case 'approval.granted':
      return approval(event, payload);
    case 'client_tools.requested':
      return { event: 'done', data: { status: 'awaiting_tool', tool_calls: (event.calls ?? []).map(clientCall) } };
    case 'turn.completed':
      return { event: 'done', data: { ...done('complete', payload), output: outputOf(event, payload) } };
    case 'turn.failed':
      return { event: 'done', data: { ...done('failed', payload), error: payload['error'] } };
    case 'turn.interrupted':
      return { event: 'done', data: { ...done('cancelled', payload), error: cancelledError(stoppedBy(payload)) } };
    default:
      return null;
  }
}

/** The payload by this build's schema; of a newer build's, only the fields that are known here are shown. */
function payloadOf(event: LoggedEvent): Record<string, unknown> {
  const current = currentPayload(event);
  return typeof current === 'object' && current !== null ? { ...current } : {};
}

function outputOf({ content }: LoggedEvent, { structured }: Record<string, unknown>): Record<string, unknown> {
  const said = content ?? [];
  const reading = READINGS.find((each) => each === structured);
  return { message: textOf(said), ...(reading && { data: dataOf(said, reading) }) };
}

function answer(event: LoggedEvent): View {
  return { event: 'message', data: { content: textOf(event.content ?? []), done: true } };
}

/** Shows an answer that ends a graph if no model has given it. */
function nodeView(event: LoggedEvent, { node, visit, answer: ordinal, ordinal: said }: Record<string, unknown>): View {
  if (event.type === 'node.entered') return { event: 'status', data: { status: 'executing', node, visit } };
  return ordinal === undefined || ordinal === said ? null : answer(event);
}

function thought(event: LoggedEvent): View {
  const blocks = event.content ?? [];
  const content = textOf(blocks) || blocks.map((block) => (block.type === 'thinking' ? block.thinking : '')).join('');
  return content === '' ? null : { event: 'thought', data: { content } };
}

function providerWait({ since, next_at, until, error }: Record<string, unknown>): Record<string, unknown> {
  return { type: 'provider', since, next_at, until, error };
}

function toolCall(event: LoggedEvent, payload: Record<string, unknown>): View {
  const { tool_call_id, tool_use_id, name } = payload;
  return { event: 'tool_call', data: { tool: name, input: event.call?.arguments ?? {}, tool_call_id, tool_use_id } };
}

/** A subtask, or delegated work. A failed one is tried again unless `final`. */
function task(status: string, payload: Record<string, unknown>): View {
  return { event: 'task', data: { ...payload, status } };
}

function approval(event: LoggedEvent, payload: Record<string, unknown>): View {
  const { approval_id, tool_call_id, plan_id, kind, digest, expires_in_seconds } = payload;
  const status = event.type === 'approval.requested' ? 'pending' : 'approved';
  const about = {
    approval_id,
    tool_call_id,
    ...(plan_id !== undefined && { plan_id }),
    tool: event.call?.name ?? payload['tool'],
    input: event.call?.arguments ?? (event.steps ? { steps: event.steps } : (payload['arguments'] ?? {})),
    digest,
    status,
  };
  return { event: 'approval', data: status === 'pending' ? { ...about, kind, expires_in_seconds } : about };
}

function toolResult(event: LoggedEvent, payload: Record<string, unknown>): View {
  const status = event.type.slice('tool.'.length);
  const isError = event.type !== 'tool.succeeded' && payload['outcome'] !== 'succeeded';
  // Later decisions and attempts do not change what was known then.
  const isUnknown = event.type === 'tool.unknown' || payload['outcome'] === 'unknown';
  const { output, is_left_out: isLarge = false, output_bytes: bytes } = event.call ?? {};
  const isLeftOut = isLarge && !isUnknown;
  const reference = { output_ref: `/v1/tool-calls/${String(payload['tool_call_id'])}/output`, output_bytes: bytes };
  return {
    event: 'tool_result',
    data: {
      tool: event.call?.name,
      tool_call_id: payload['tool_call_id'],
      status,
      output: isUnknown ? null : (output ?? null),
      ...(isLeftOut && reference),
      is_error: isError,
      ...(isError && { error: payload['error'] }),
    },
  };
}

function clientCall({ id, tool_use_id, name, arguments: input }: NonNullable<LoggedEvent['calls']>[number]) {
  return { id, tool_call_id: id, tool_use_id, tool: name, input };
}

/** The stop reason that the turn's row has for this interruption. */
function stoppedBy({ reason }: Record<string, unknown>): string | undefined {
  return Object.entries(STOPPED).find(([asked]) => asked === reason)?.[1];
}

function done(status: string, payload: Record<string, unknown>): Record<string, unknown> {
  const { checkpoint_id = null, stop_reason = status } = payload;
  return { status, checkpoint_id, stop_reason };
}
