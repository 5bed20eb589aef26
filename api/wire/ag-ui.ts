/** AG-UI 1.0: a turn is a run of the client's, texts and calls of a step are messages of the assistant (docs/wire-forms.md). */
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
type AgUiMessage = { id: string; role: string } & Record<string, unknown>;

/** The client's own names for the thread and the run, and the messages that it has. */
export interface AgUiClient {
  threadId: string;
  runId: string;
  messages: readonly AgUiMessage[];
  /** The thread's id, by which the ids of messages that wait follow from the client's. */
  thread?: string;
  /** Interrupts that it has answered and that are not open. */
  passed?: readonly string[];
}

/** The form for a client; `behind`: what it has, where it was told of a turn since. What the turn has by then is in a snapshot of messages; what it shows then is each event's own. */
export function agUi(client: AgUiClient, behind?: readonly AgUiMessage[]): LongForm<AgUiEvent> {
  const { threadId, runId, passed = [] } = client;
  // What is being written comes from its beginning: a client that has some of it already is to have none of it.
  const hasNews = ({ parts, messages, turnId }: TurnView) =>
    behind !== undefined ||
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
    // Its client is told all of this turn before the next one.
    next: (view) => agUi({ ...client, messages: messagesWith(view, client) }, client.messages),
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
      return isTold(change.call) ? [{ type: 'TOOL_CALL_RESULT', role: 'tool', ...resultOf(change.call, client) }] : [];
    case 'message_changed':
      return [tellOf(change.message), ...(change.message.status === 'waiting' ? [] : snapshots(view, client))];
    case 'text_settled':
    case 'call_started':
    case 'said':
    case 'asked':
    case 'answered':
    case 'ended':
      return [];
  }
}

/** A snapshot has what begins with it, too: it comes after that, or its client would have it twice. */
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

/** The message that has a step's calls. */
const callsId = ({ turnId }: TurnView, step: number) => `${turnId}.${step}.calls`;

function callEvents(view: TurnView, call: CallPart): AgUiEvent[] {
  return [callStart(view, call), wholeOf(call), callEnd(call)];
}

/** What the client has of a call by its end is to be the call. */
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

/** What nobody knows is told once somebody does: a message of the protocol is final. */
function isTold({ state }: CallPart): boolean {
  return state === 'succeeded' || state === 'failed' || state === 'denied';
}

/** A client that has given the result itself has it under an id of its own. */
function resultOf({ id, state, output, error }: CallPart, { messages }: AgUiClient) {
  const result = state === 'succeeded' ? output : error;
  const text = typeof result === 'string' ? result : JSON.stringify(result);
  const given = messages.findLast(({ role, toolCallId }) => role === 'tool' && toolCallId === id);
  return { messageId: given?.id ?? `${id}.result`, toolCallId: id, content: text };
}

/** What has become of a message that came while the turn was at work. */
function tellOf({ id, text, status }: UserMessage): AgUiEvent {
  return custom('message', { message_id: id, text, status });
}

/** What the protocol has no event for. */
function custom(about: 'message' | 'interrupt', value: Record<string, string>): AgUiEvent {
  return { type: 'CUSTOM', name: `drover.${about}`, value };
}

/**
 * Clients leave the messages that they have where they are, and put others after them: where they do not have them in this
 * order, all from there on is told anew. `had`: what the client has had, where it was told of a turn since.
 */
function snapshots(view: TurnView, client: AgUiClient, had?: readonly AgUiMessage[]): AgUiEvent[] {
  const messages = messagesWith(view, client);
  const said = new Set(view.messages.flatMap((message) => theirsOf(message, client)?.id ?? []));
  const place = messages.findIndex(({ id }, index) => said.has(id) || (had && had[index]?.id !== id));
  const type = 'MESSAGES_SNAPSHOT';
  return [...(place < 0 ? [] : [{ type, messages: messages.slice(0, place) }]), { type, messages }];
}

/** The client's messages, with those that the turn has so far; what waits for the turn comes after it. */
function messagesWith(view: TurnView, client: AgUiClient): AgUiMessage[] {
  const meanwhile = view.messages.map((message) => ({ message, theirs: theirsOf(message, client) }));
  const ofTurn = messagesOf(view, client);
  const placed = new Set([...ofTurn.map(({ id }) => id), ...meanwhile.flatMap(({ theirs }) => theirs?.id ?? [])]);
  const kept = withoutTurn(view, client).filter(({ id }) => !placed.has(id));
  const later = meanwhile.flatMap(({ message, theirs }) => (theirs && message.status !== 'read' ? [theirs] : []));
  const input = { id: inputId(view.turnId), role: 'user', content: view.message };
  return [...kept, ...(hasInput(client) ? [] : [input]), ...ofTurn, ...later];
}

/** The client's messages without those of the turn, and without results that it has given: those are told in their place. */
function withoutTurn(view: TurnView, { messages }: AgUiClient): AgUiMessage[] {
  const isOfTurn = ({ id }: AgUiMessage) => id.startsWith(`${view.turnId}.`);
  const begun = messages.findIndex(isOfTurn);
  const calls = new Set<unknown>(callsOf(view).map(({ id }) => id));
  return messages.filter((message, place) => {
    const isResult = message.role === 'tool' && (calls.has(message['toolCallId']) || (begun >= 0 && place > begun));
    return !isResult && !isOfTurn(message);
  });
}

/** The message as the client has it. */
function theirsOf({ id }: UserMessage, { messages, thread }: AgUiClient): AgUiMessage | undefined {
  if (thread === undefined) return undefined;
  return messages.find((each) => each.role === 'user' && messageIdOf(thread, each.id) === id);
}

/** Whether the client has what its user has said; one that has nothing is told. */
function hasInput({ messages }: AgUiClient): boolean {
  return messages.some(({ role, id }) => role === 'user' && !id.endsWith('.input'));
}

function messagesOf(view: TurnView, client: AgUiClient): AgUiMessage[] {
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
    const results = calls.filter(isTold).toSorted((left, right) => left.settledAt - right.settledAt);
    return [
      ...textsAsMessages(view, parts.slice(0, before)),
      ...(calls.length > 0 ? [{ id: callsId(view, step), role: 'assistant', toolCalls: calls.map(toolCall) }] : []),
      ...results.map((call) => {
        const { messageId: id, ...result } = resultOf(call, client);
        return { id, role: 'tool', ...result };
      }),
      // A node that makes a call answers after it.
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

/** A snapshot without reasoning takes none away from a client: what is void is emptied, until the next attempt writes it. */
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
