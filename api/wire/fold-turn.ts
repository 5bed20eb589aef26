/**
 * Folds a turn's log, and pieces of the answer being written, into a view. Wire forms turn its changes into frames, and
 * views into preludes.
 */
import { currentPayload } from '../../core/events.ts';
import type { StoredBlock } from '../../core/content.ts';
import type { LoggedEvent } from '../../modules/runs/read-runs.ts';
import { dequeueMessage, filesOf, queueMessage, replaceWaiting, textOf } from './turn-messages.ts';
import { checkWritten, growCall, requestCall, withdrawCalls } from './turn-calls.ts';
import { notePause } from './turn-pause.ts';
import { closeText, finishStep, growText, showPartial } from './turn-text.ts';
import { callsOf, type Ask, type CallPart, type Change, type Delta, type TurnView } from './turn-view.ts';

type Payload = Record<string, unknown>;

/** Applies an event to the view; returns the changes. */
export function foldEvent(view: TurnView, event: LoggedEvent): Change[] {
  view.seq = event.seq;
  // Messages that waited for the end of this turn begin the next one.
  const isOthers = event.turn_id !== null && event.turn_id !== view.turnId;
  if (isOthers && event.type === 'message.queued') return replaceWaiting(view);
  if (isOthers && event.type !== 'message.dequeued') return [];
  const current = currentPayload(event);
  const payload: Payload = typeof current === 'object' && current !== null ? { ...current } : {};
  if (event.type === 'message.dequeued') return dequeueMessage(view, event, payload);
  const changes = apply(view, event, payload);
  notePause(view, event);
  return changes;
}

/** Applies a piece of the answer being written. */
export function foldDelta(view: TurnView, piece: Delta): Change[] {
  const { turnId, step, at } = piece;
  if (turnId !== view.turnId || view.end || step <= view.finishedStep || isAhead(view, step)) return [];
  if (piece.kind === 'call_piece') return growCall(view, piece);
  const { delta } = piece;
  const changes = growText(view, { kind: delta.type === 'text' ? 'text' : 'reasoning', text: delta.text, step, at });
  // In the log, an answer's calls come after its texts.
  return changes.length > 0 ? [...withdrawCalls(view), ...changes] : [];
}

/** Whether a piece has overtaken the log, so that its place is not known yet; it is dropped, and the log brings it later. */
function isAhead({ calledStep, finishedStep }: TurnView, step: number): boolean {
  return calledStep > finishedStep ? step > calledStep : finishedStep > 0 && step > finishedStep + 1;
}

function apply(view: TurnView, event: LoggedEvent, payload: Payload): Change[] {
  switch (event.type) {
    case 'turn.started':
      view.message = textOf(payload['input']);
      return [{ kind: 'said', text: view.message, files: filesOf(payload['input']) }];
    case 'message.queued':
      return queueMessage(view, payload);
    case 'run.status_changed':
      view.runStatus = String(payload['to']);
      return [];
    case 'model.called':
      view.calledStep = Math.max(view.calledStep, event.step ?? 0);
      return withdrawCalls(view, ({ step }) => step < view.calledStep);
    case 'model.responded':
      // Drover's own model calls are not part of the turn.
      if ('tool' in payload) return [];
      view.finishedStep = event.step ?? view.finishedStep;
      return takeAnswer(view, { step: view.finishedStep, content: event.content ?? [] });
    case 'model.failed':
      // In place of what an earlier attempt had said.
      if (typeof payload['partial'] === 'string' && !('tool' in payload))
        view.partial = { step: event.step ?? 0, text: payload['partial'] };
      return [];
    case 'node.completed':
    case 'workflow.concluded':
      return takeOutput(view, event, payload);
    case 'tool.requested':
      return requestCall(view, {
        id: String(payload['tool_call_id']),
        step: event.step ?? 0,
        place: payload['place'],
        tool: String(payload['name']),
        input: event.call?.arguments ?? {},
      });
    case 'tool.started':
      return startCall(view, payload);
    case 'tool.succeeded':
    case 'tool.failed':
    case 'tool.denied':
    case 'tool.unknown':
    case 'tool.resolved':
      return settleCall(view, event, payload);
    case 'input.requested':
      return payload['type'] === 'user' ? ask(view, event, payload) : letWait(view, payload);
    case 'approval.requested':
    case 'client_tools.requested':
      return ask(view, event, payload);
    case 'approval.granted':
    case 'approval.denied':
    case 'approval.expired':
    case 'approval.settled':
      return answer(view, event, payload);
    case 'signal.received':
      return takeSignal(view, payload);
    case 'turn.completed':
    case 'turn.failed':
    case 'turn.interrupted':
      return end(view, event, payload);
    default:
      return [];
  }
}

function takeAnswer(view: TurnView, given: { step: number; content: readonly StoredBlock[] }): Change[] {
  const withdrawn = checkWritten(view, given);
  return [...withdrawn, ...finishStep(view, given)];
}

/** An answer that no model has given: of a workflow, or of a node if the graph ends with it. */
function takeOutput(
  view: TurnView,
  { type, step, content }: LoggedEvent,
  { answer: said, ordinal }: Payload,
): Change[] {
  if (type === 'node.completed' && (said === undefined || said === ordinal)) return [];
  return finishStep(view, { step: step ?? view.finishedStep, content: content ?? [] });
}

function callOf(view: TurnView, id: unknown): CallPart | undefined {
  return callsOf(view).find((call) => call.id === id);
}

function startCall(view: TurnView, payload: Payload): Change[] {
  const call = callOf(view, payload['tool_call_id']);
  return call ? [{ kind: 'call_started', call: Object.assign(call, { isBegun: true }) }] : [];
}

/** Waits for time or another system; a delegated call is being worked on. */
function letWait(view: TurnView, payload: Payload): Change[] {
  const call = callOf(view, payload['tool_call_id']);
  if (call && payload['type'] !== 'child') call.isWaiting = true;
  return startCall(view, payload);
}

function settleCall(view: TurnView, event: LoggedEvent, payload: Payload): Change[] {
  const call = callOf(view, payload['tool_call_id']);
  if (!call) return [];
  call.isResolved = event.type === 'tool.resolved';
  const named = call.isResolved ? payload['outcome'] : event.type.slice('tool.'.length);
  call.state = named === 'succeeded' || named === 'denied' || named === 'unknown' ? named : 'failed';
  const { output = null, is_left_out: isLeftOut = false, output_bytes: bytes } = event.call ?? {};
  const reference = { output_ref: `/v1/tool-calls/${call.id}/output`, output_bytes: bytes };
  call.output = call.state === 'unknown' ? null : isLeftOut ? reference : output;
  call.error = call.state === 'succeeded' ? '' : (problemOf(payload)?.message ?? call.state);
  call.settledAt = event.seq;
  const asked = view.asks.get(call.id);
  if (asked) view.asks.delete(call.id);
  const answered: Change[] = asked ? [{ kind: 'answered', ask: asked, isApproved: true, calls: [call] }] : [];
  return [...answered, { kind: 'call_settled', call }];
}

function ask(view: TurnView, event: LoggedEvent, payload: Payload): Change[] {
  const asks = asksOf(view, event, payload);
  return asks.map((each) => {
    view.asks.set(each.id, each);
    const calls = each.calls.flatMap((id) => callOf(view, id) ?? []);
    const isOfClient = each.kind === 'question' || each.kind === 'client_tool';
    for (const call of calls) Object.assign(call, { isRefused: false, ...(isOfClient && { isOfClient }) });
    return { kind: 'asked', ask: each, calls };
  });
}

function asksOf(view: TurnView, event: LoggedEvent, payload: Payload): Ask[] {
  const { tool_call_id: callId } = payload;
  if (event.type === 'client_tools.requested') {
    const ids = Array.isArray(payload['tool_call_ids']) ? payload['tool_call_ids'].map(String) : [];
    return ids
      .filter((id) => !view.asks.has(id))
      .map((id) => ({ id, kind: 'client_tool', calls: [id], tool: callOf(view, id)?.tool ?? '', message: '' }));
  }
  if (event.type === 'input.requested') {
    const id = String(callId);
    const call = callOf(view, id);
    const message = textIn(payload, 'question');
    return [{ id, kind: 'question', calls: [id], tool: call?.tool ?? '', message }];
  }
  const ofCallBatch = Array.isArray(payload['calls']) ? payload['calls'].map(String) : [];
  return [
    {
      id: String(payload['approval_id']),
      kind: payload['kind'] === 'unknown' ? 'unknown' : 'approval',
      calls: typeof callId === 'string' ? [callId] : ofCallBatch,
      tool: textIn(payload, 'tool'),
      message: textIn(payload, 'message'),
    },
  ];
}

/** An answered call stops asking, even before its driver, or a later event of the same commit, settles it. */
function takeSignal(view: TurnView, payload: Payload): Change[] {
  return answeredBy(payload).flatMap((id) => {
    const asked = view.asks.get(id);
    const call = asked && callOf(view, asked.id);
    if (!asked || !call) return [];
    view.asks.delete(asked.id);
    return [{ kind: 'answered', ask: asked, isApproved: true, calls: [call] }];
  });
}

/** Ids of the answered calls: results of client tools come for several at once. */
function answeredBy({ tool_call_id: callId, payload: given }: Payload): string[] {
  if (typeof callId === 'string') return [callId];
  const ids = typeof given === 'object' && given !== null && 'tool_call_ids' in given ? given.tool_call_ids : [];
  return Array.isArray(ids) ? ids.map(String) : [];
}

function answer(view: TurnView, event: LoggedEvent, payload: Payload): Change[] {
  const asked = view.asks.get(String(payload['approval_id']));
  if (!asked) return [];
  view.asks.delete(asked.id);
  const calls = asked.calls.flatMap((id) => callOf(view, id) ?? []);
  const isApproved = event.type === 'approval.granted' || payload['decision'] === 'happened';
  if (asked.kind === 'approval') for (const call of calls) call.isRefused = !isApproved;
  const answered: Change = { kind: 'answered', ask: asked, isApproved, calls };
  const [only] = calls;
  if (payload['edited'] !== true || !only) return [answered];
  only.input = event.call?.arguments ?? only.input;
  return [answered, { kind: 'call_edited', call: only }];
}

function end(view: TurnView, event: LoggedEvent, payload: Payload): Change[] {
  const status = event.type === 'turn.completed' ? 'complete' : event.type === 'turn.failed' ? 'failed' : 'cancelled';
  const { code = status, message = '' } = problemOf(payload) ?? {};
  view.end = {
    status,
    stopReason: textIn(payload, 'stop_reason') || textIn(payload, 'reason') || status,
    code,
    message,
  };
  const given = giveUp(view);
  const withdrawn = withdrawCalls(view);
  // What a failed turn has left unfinished is void: later clients do not see it.
  const partial = status === 'cancelled' ? (event.partial ?? view.partial) : null;
  const said = partial ? showPartial(view, partial) : [];
  const closed = closeText(view, { isVoid: status === 'failed' });
  return [...given, ...withdrawn, ...said, ...closed, { kind: 'ended' }];
}

/**
 * Nothing takes an answer once the turn has ended: calls that wait for one are settled, so that no client offers to give it. Those
 * that a log of an older build leaves open are, too, so that no client waits for them.
 */
function giveUp(view: TurnView): Change[] {
  const answered = [...view.asks.values()].map((asked): Change => {
    const calls = asked.calls.flatMap((id) => callOf(view, id) ?? []);
    if (asked.kind === 'approval') for (const call of calls) call.isRefused = true;
    return { kind: 'answered', ask: asked, isApproved: false, calls };
  });
  view.asks.clear();
  const settled = callsOf(view)
    .filter(({ state }) => state === 'requested')
    .map((call): Change => {
      return { kind: 'call_settled', call: Object.assign(call, leftOpen(call), { settledAt: view.seq }) };
    });
  return [...answered, ...settled];
}

function leftOpen({ isRefused, isOfClient, isBegun }: CallPart): Pick<CallPart, 'state' | 'error'> {
  if (isRefused) return { state: 'denied', error: NOT_ANSWERED };
  if (isOfClient) return { state: 'failed', error: NOT_ANSWERED };
  return isBegun ? { state: 'unknown', error: NOT_KNOWN } : { state: 'failed', error: NOT_MADE };
}

const NOT_ANSWERED = 'The turn ended before this was answered.';

const NOT_MADE = 'The turn ended before this call was made.';

const NOT_KNOWN = 'The turn ended during this call: it may or may not have taken effect.';

function textIn(payload: Payload, field: string): string {
  const value = payload[field];
  return typeof value === 'string' ? value : '';
}

function problemOf({ error }: Payload): { code: string; message: string } | undefined {
  if (typeof error !== 'object' || error === null || !('message' in error)) return undefined;
  return { code: 'code' in error ? String(error.code) : 'failed', message: String(error.message) };
}
