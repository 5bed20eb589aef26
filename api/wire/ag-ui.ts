/**
 * AG-UI 1.0: a turn is one run of the client's; a step's texts and calls are messages of the assistant
 * (docs/wire-forms.md).
 */
import { inputId, messageIdOf } from './ag-ui-request.ts';
import type { LongForm } from './form.ts';
import { isAsWritten } from './turn-calls.ts';
import {
  callsOf,
  type Ask,
  type CallPart,
  type Change,
  type Part,
  type TextPart,
  type TurnView,
  type UserMessage,
} from './turn-view.ts';

type AgUiEvent = { type: string } & Record<string, unknown>;
export type AgUiForm = LongForm<AgUiEvent>;
export type AgUiMessage = { id: string; role: string } & Record<string, unknown>;

/** The client's names for thread and run, and its messages. */
export interface AgUiClient {
  threadId: string;
  runId: string;
  messages: readonly AgUiMessage[];
  /** The thread's id, from which ids of waiting messages are derived. */
  thread?: string;
  /** Interrupts that it answered but that are not open. */
  passed?: readonly string[];
  /** Set if its messages are those of the thread, which it may not have all; whether they have the words of the turn. */
  joined?: { hasInput: boolean };
  /** Whether it has the words of the turn, where a message that waited has begun it. */
  hasInput?: boolean;
}

/**
 * The form for a client; `behind`: its messages before an earlier turn of the stream, or before it joined. A snapshot holds what the turn
 * has so far; later events bring the rest.
 */
export function agUi(client: AgUiClient, behind?: readonly AgUiMessage[]): AgUiForm {
  const { threadId, runId, passed = [], joined, hasInput: _ofThis, ...known } = client;
  // A text being written is sent from its start, so a client that has part of it must drop that.
  const hasNews = ({ parts, messages, turnId }: TurnView) =>
    behind !== undefined ||
    joined !== undefined ||
    parts.length > 0 ||
    messages.length > 0 ||
    client.messages.some(({ id }) => id.startsWith(`${turnId}.`));
  return {
    begin: (view) => [
      { type: 'RUN_STARTED', threadId, runId },
      ...passed.map((interrupt_id) => custom('interrupt', { interrupt_id, status: 'not_open' })),
      ...(hasNews(view) || !hasInput(client) ? snapshots(view, client, behind) : []),
    ],
    show: (change, view) => show(change, view, client),
    arrange,
    finish: (view) => [
      ...(view.messages.some(({ status }) => status === 'waiting') ? snapshots(view, client) : []),
      finish(view, client),
    ],
    enter: (view) => snapshots(view, client, behind),
    // The client gets all of this turn before the next one.
    next(view) {
      const had = (joined && behind) ?? client.messages;
      const begun = view.messages.find(({ status }) => status === 'begun');
      const input = begun && { hasInput: theirsOf(begun, client) !== undefined };
      return agUi({ ...known, ...input, threadId, runId, passed, messages: messagesWith(view, client) }, had);
    },
  };
}

function show(change: Change, view: TurnView, client: AgUiClient): AgUiEvent[] {
  switch (change.kind) {
    case 'text_opened':
      return textStart(view, change.part);
    case 'text_grew':
      return [content(view, change.part, change.text)];
    case 'text_closed':
      return [...textEnd(view, change.part), ...(change.part.isVoid ? snapshots(view, client) : [])];
    case 'call_requested':
      return callEvents(view, change.call);
    case 'call_begun':
      return [callStart(view, change.call)];
    case 'call_grew':
      return [{ type: 'TOOL_CALL_ARGS', toolCallId: change.call.id, delta: change.text }];
    case 'call_written':
      return [...rest(change.call, () => snapshots(view, client)), callEnd(change.call)];
    case 'calls_withdrawn':
      return [...change.calls.map(callEnd), ...snapshots(view, client)];
    case 'call_edited':
      return snapshots(view, client);
    case 'call_settled':
      return isTold(change.call, view)
        ? [{ type: 'TOOL_CALL_RESULT', role: 'tool', ...resultOf(change.call, client) }]
        : [];
    case 'message_changed':
      return [tellOf(change.message), ...(change.message.status === 'waiting' ? [] : snapshots(view, client))];
    case 'text_settled':
    case 'call_started':
    case 'said':
    case 'asked':
    case 'answered':
      return [];
    case 'ended':
      return callsOf(view).some(isInDoubt) ? snapshots(view, client) : [];
  }
}

/** Moves snapshots behind the starts they already contain; else the client would have these twice. */
function arrange(events: AgUiEvent[]): AgUiEvent[] {
  const begins = events.findLastIndex(({ type }) => type.endsWith('_START'));
  const isMoved = ({ type }: AgUiEvent, place: number) => type === 'MESSAGES_SNAPSHOT' && place < begins;
  return [...events.filter((event, place) => !isMoved(event, place)), ...events.filter(isMoved)];
}

const idOf = ({ turnId }: TurnView, { id }: TextPart) => `${turnId}.${id}`;

function textStart(view: TurnView, part: TextPart): AgUiEvent[] {
  const messageId = idOf(view, part);
  if (part.kind === 'text') return [{ type: 'TEXT_MESSAGE_START', messageId, role: 'assistant' }];
  return [
    { type: 'REASONING_START', messageId },
    { type: 'REASONING_MESSAGE_START', messageId, role: 'reasoning' },
  ];
}

function content(view: TurnView, part: TextPart, delta: string): AgUiEvent {
  const type = part.kind === 'text' ? 'TEXT_MESSAGE_CONTENT' : 'REASONING_MESSAGE_CONTENT';
  return { type, messageId: idOf(view, part), delta };
}

function textEnd(view: TurnView, part: TextPart): AgUiEvent[] {
  const messageId = idOf(view, part);
  if (part.kind === 'text') return [{ type: 'TEXT_MESSAGE_END', messageId }];
  return [
    { type: 'REASONING_MESSAGE_END', messageId },
    { type: 'REASONING_END', messageId },
  ];
}

/** The id of the message with a step's calls. */
const callsId = ({ turnId }: TurnView, step: number) => `${turnId}.${step}.calls`;

function callEvents(view: TurnView, call: CallPart): AgUiEvent[] {
  return [callStart(view, call), wholeOf(call), callEnd(call)];
}

/** Completes a written call: nothing if the client has it all, a snapshot if it differs. */
function rest(call: CallPart, anew: () => AgUiEvent[]): AgUiEvent[] {
  if (call.written === '') return [wholeOf(call)];
  return isAsWritten(call) ? [] : anew();
}

function wholeOf({ id: toolCallId, input }: CallPart): AgUiEvent {
  return { type: 'TOOL_CALL_ARGS', toolCallId, delta: JSON.stringify(input) };
}

function callStart(view: TurnView, { id: toolCallId, step, tool }: CallPart): AgUiEvent {
  return { type: 'TOOL_CALL_START', toolCallId, toolCallName: tool, parentMessageId: callsId(view, step) };
}

const callEnd = ({ id: toolCallId }: CallPart): AgUiEvent => ({ type: 'TOOL_CALL_END', toolCallId });

/** Unknown outcomes are only sent once somebody decides, or the turn has ended: the protocol's messages are final. */
function isTold(call: CallPart, { end }: TurnView): boolean {
  const { state } = call;
  if (state === 'unknown') return end !== null || !isInDoubt(call);
  return state === 'succeeded' || state === 'failed' || state === 'denied';
}

const isInDoubt = ({ state, isResolved }: CallPart) => state === 'unknown' && !isResolved;

/** A result; if the client gave it, under the client's own id. */
function resultOf({ id, state, output, error }: CallPart, { messages }: AgUiClient) {
  const result = state === 'succeeded' ? output : error;
  const text = typeof result === 'string' ? result : JSON.stringify(result);
  const given = messages.findLast(({ role, toolCallId }) => role === 'tool' && toolCallId === id);
  return { messageId: given?.id ?? `${id}.result`, toolCallId: id, content: text };
}

/** Tells the state of a message that came during the turn. */
function tellOf({ id, text, status }: UserMessage): AgUiEvent {
  return custom('message', { message_id: id, text, status });
}

/** An event for which the protocol has no type. */
function custom(about: 'message' | 'interrupt', value: Record<string, string>): AgUiEvent {
  return { type: 'CUSTOM', name: `drover.${about}`, value };
}

/**
 * Clients keep their messages in place and append others: if their order differs, a first snapshot cuts them off there,
 * so that the rest is added anew. `had`: the client's messages before an earlier turn of the stream.
 */
function snapshots(view: TurnView, client: AgUiClient, had?: readonly AgUiMessage[]): AgUiEvent[] {
  const messages = messagesWith(view, client);
  const said = new Set(view.messages.flatMap((message) => theirsOf(message, client)?.id ?? []));
  const place = messages.findIndex(({ id }, index) => said.has(id) || (had && had[index]?.id !== id));
  const type = 'MESSAGES_SNAPSHOT';
  return [...(place < 0 ? [] : [{ type, messages: messages.slice(0, place) }]), { type, messages }];
}

/** The client's messages, with the turn's so far; waiting messages come after it. */
function messagesWith(view: TurnView, client: AgUiClient): AgUiMessage[] {
  const meanwhile = view.messages.map((message) => ({ message, theirs: theirsOf(message, client) }));
  const ofTurn = messagesOf(view, client);
  const placed = new Set([...ofTurn.map(({ id }) => id), ...meanwhile.flatMap(({ theirs }) => theirs?.id ?? [])]);
  const kept = withoutTurn(view, client).filter(({ id }) => !placed.has(id));
  const later = meanwhile.flatMap(({ message: { status, next, text }, theirs }): AgUiMessage[] => {
    if (theirs) return status === 'read' ? [] : [theirs];
    return next ? [{ id: inputId(next.turnId), role: 'user', content: text }] : [];
  });
  return [...kept, ...(hasInput(client) ? [] : [inputOfTurn(view)]), ...ofTurn, ...later];
}

/** The words that began a turn, for a client that has none of its own for them. */
export function inputOfTurn({ turnId, message }: TurnView): AgUiMessage {
  return { id: inputId(turnId), role: 'user', content: message };
}

/** The client's messages without the turn's, and without results it gave, which are added in their place. */
function withoutTurn(view: TurnView, { messages }: AgUiClient): AgUiMessage[] {
  const isOfTurn = ({ id }: AgUiMessage) => id.startsWith(`${view.turnId}.`);
  const begun = messages.findIndex(isOfTurn);
  const calls = new Set<unknown>(callsOf(view).map(({ id }) => id));
  return messages.filter((message, place) => {
    const isResult = message.role === 'tool' && (calls.has(message['toolCallId']) || (begun >= 0 && place > begun));
    return !isResult && !isOfTurn(message);
  });
}

/** The client's own copy of a message. */
function theirsOf({ id }: UserMessage, { messages, thread }: AgUiClient): AgUiMessage | undefined {
  if (thread === undefined) return undefined;
  return messages.find((each) => each.role === 'user' && messageIdOf(thread, each.id) === id);
}

/** Whether the client has its user's message; one without any gets it. */
function hasInput({ messages, joined, hasInput: isKnown }: AgUiClient): boolean {
  return joined?.hasInput ?? isKnown ?? messages.some(({ role, id }) => role === 'user' && !id.endsWith('.input'));
}

/** A turn's messages without the one that began it. */
export function messagesOf(view: TurnView, client: AgUiClient): AgUiMessage[] {
  const toMessage = (message: UserMessage) =>
    theirsOf(message, client) ?? { id: `${message.id}.input`, role: 'user', content: message.text };
  const read = view.messages.filter(({ status }) => status === 'read');
  const cuts = [0, ...read.map(({ place }) => place), view.parts.length];
  return cuts.slice(1).flatMap((end, index) => {
    const message = read[index];
    const parts = view.parts.slice(cuts[index], end);
    return [...partsAsMessages(view, client, parts), ...(message ? [toMessage(message)] : [])];
  });
}

function partsAsMessages(view: TurnView, client: AgUiClient, shown: readonly Part[]): AgUiMessage[] {
  const all = shown.filter((part) => part.kind !== 'call' || part.state !== 'withdrawn');
  const steps = [...new Set(all.map(({ step }) => step))];
  return steps.flatMap((step) => {
    const parts = all.filter((part) => part.step === step);
    const calls = parts.filter((part) => part.kind === 'call');
    const called = parts.findIndex(({ kind }) => kind === 'call');
    const before = called < 0 ? parts.length : called;
    const results = calls
      .filter((call) => isTold(call, view))
      .toSorted((left, right) => left.settledAt - right.settledAt);
    return [
      ...textsAsMessages(view, parts.slice(0, before)),
      ...(calls.length > 0 ? [{ id: callsId(view, step), role: 'assistant', toolCalls: calls.map(toolCall) }] : []),
      ...results.map((call) => {
        const { messageId: id, ...result } = resultOf(call, client);
        return { id, role: 'tool', ...result };
      }),
      // A node that made calls answers after them.
      ...textsAsMessages(view, parts.slice(before)),
    ];
  });
}

function textsAsMessages(view: TurnView, parts: readonly Part[]): AgUiMessage[] {
  return parts.flatMap((part) => {
    if (part.kind === 'call' || (part.isVoid && !isKept(view, part))) return [];
    const told = part.isVoid ? '' : part.text;
    return { id: idOf(view, part), role: part.kind === 'text' ? 'assistant' : 'reasoning', content: told };
  });
}

/** Clients keep reasoning that a snapshot lacks: void reasoning stays, emptied, until the next attempt writes it. */
function isKept({ parts }: TurnView, part: TextPart): boolean {
  return part.kind === 'reasoning' && parts.findLast((other) => other.kind !== 'call' && other.id === part.id) === part;
}

function toolCall({ id, tool, input, state, written }: CallPart) {
  const args = state === 'writing' ? written : JSON.stringify(input);
  return { id, type: 'function', function: { name: tool, arguments: args } };
}

function finish({ end, asks }: TurnView, { threadId, runId }: AgUiClient): AgUiEvent {
  if (end && end.status !== 'complete') {
    return { type: 'RUN_ERROR', message: end.message || 'The turn was cancelled.', code: end.code };
  }
  const outcome = end ? { type: 'success' } : { type: 'interrupt', interrupts: [...asks.values()].map(interrupt) };
  return { type: 'RUN_FINISHED', threadId, runId, outcome };
}

function interrupt({ id, kind, calls, tool, message }: Ask) {
  const [only] = calls;
  return {
    id,
    reason: kind,
    ...(message !== '' && { message }),
    ...(calls.length === 1 && only !== undefined && { toolCallId: only }),
    metadata: { drover: { kind, tool, calls } },
  };
}
