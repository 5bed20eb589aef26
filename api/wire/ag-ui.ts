/** AG-UI 1.0: a turn is a run of the client's, texts and calls of a step are messages of the assistant (docs/wire-forms.md). */
import { inputId } from './ag-ui-request.ts';
import type { WireForm } from './form.ts';
import type { Ask, CallPart, Change, TextPart, TurnView } from './turn-view.ts';

export type AgUiEvent = { type: string } & Record<string, unknown>;
export type AgUiMessage = { id: string; role: string } & Record<string, unknown>;

/** The client's own names for the thread and the run, and the messages that it has. */
export interface AgUiClient {
  threadId: string;
  runId: string;
  messages: readonly AgUiMessage[];
}

/** The form for a client. What the turn has by then is in a snapshot of messages; what it shows then is each event's own. */
export function agUi(client: AgUiClient): WireForm<AgUiEvent> {
  const { threadId, runId } = client;
  return {
    begin: (view) => [
      { type: 'RUN_STARTED', threadId, runId },
      ...(view.parts.length > 0 || !hasInput(client) ? [snapshot(view, client)] : []),
    ],
    show: (change, view) => show(change, view, client),
    finish: (view) => [finish(view, client)],
  };
}

function show(change: Change, view: TurnView, client: AgUiClient): AgUiEvent[] {
  switch (change.kind) {
    case 'text_opened':
      return textStart(view, change.part);
    case 'text_grew':
      return [content(view, change.part, change.text)];
    case 'text_closed':
      return [...textEnd(view, change.part), ...(change.part.isVoid ? [snapshot(view, client)] : [])];
    case 'call_requested':
      return callEvents(view, change.call);
    case 'call_edited':
      return [snapshot(view, client)];
    case 'call_settled':
      return isTold(change.call) ? [{ type: 'TOOL_CALL_RESULT', role: 'tool', ...resultOf(change.call) }] : [];
    case 'said':
    case 'asked':
    case 'answered':
    case 'ended':
      return [];
  }
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

function callEvents(view: TurnView, { id: toolCallId, step, tool, input }: CallPart): AgUiEvent[] {
  return [
    { type: 'TOOL_CALL_START', toolCallId, toolCallName: tool, parentMessageId: callsId(view, step) },
    { type: 'TOOL_CALL_ARGS', toolCallId, delta: JSON.stringify(input) },
    { type: 'TOOL_CALL_END', toolCallId },
  ];
}

/** What nobody knows is told once somebody does: a message of the protocol is final. */
function isTold({ state }: CallPart): boolean {
  return state !== 'requested' && state !== 'unknown';
}

function resultOf({ id, state, output, error }: CallPart) {
  const result = state === 'succeeded' ? output : error;
  const text = typeof result === 'string' ? result : JSON.stringify(result);
  return { messageId: `${id}.result`, toolCallId: id, content: text };
}

/** The client's messages, with those of the turn as they stand. */
function snapshot(view: TurnView, client: AgUiClient): AgUiEvent {
  const ofTurn = messagesOf(view);
  const own = new Set(ofTurn.map(({ id }) => id));
  const isOthers = ({ id }: AgUiMessage) => !own.has(id) && !id.startsWith(`${view.turnId}.`);
  const kept = client.messages.filter(isOthers);
  const input = { id: inputId(view.turnId), role: 'user', content: view.message };
  return { type: 'MESSAGES_SNAPSHOT', messages: [...kept, ...(hasInput(client) ? [] : [input]), ...ofTurn] };
}

/** Whether the client has what its user has said; one that has nothing is told. */
function hasInput({ messages }: AgUiClient): boolean {
  return messages.some(({ role, id }) => role === 'user' && !id.endsWith('.input'));
}

function messagesOf(view: TurnView): AgUiMessage[] {
  const steps = [...new Set(view.parts.map(({ step }) => step))];
  return steps.flatMap((step) => {
    const parts = view.parts.filter((part) => part.step === step);
    const calls = parts.filter((part) => part.kind === 'call');
    const texts = parts.filter((part): part is TextPart => part.kind !== 'call' && !part.isVoid);
    const results = calls.filter(isTold).toSorted((left, right) => left.settledAt - right.settledAt);
    return [
      ...texts.map((part) => ({
        id: idOf(view, part),
        role: part.kind === 'text' ? 'assistant' : 'reasoning',
        content: part.text,
      })),
      ...(calls.length > 0 ? [{ id: callsId(view, step), role: 'assistant', toolCalls: calls.map(toolCall) }] : []),
      ...results.map((call) => {
        const { messageId: id, ...result } = resultOf(call);
        return { id, role: 'tool', ...result };
      }),
    ];
  });
}

function toolCall({ id, tool, input }: CallPart) {
  return { id, type: 'function', function: { name: tool, arguments: JSON.stringify(input) } };
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
