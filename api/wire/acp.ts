/** The Agent Client Protocol, version 1: a turn as updates of a session (docs/wire-forms.md). */
import type { ContentBlock, SessionUpdate, ToolCallContent } from '@agentclientprotocol/sdk';
import type { Attachment } from '../../core/content.ts';
import type { WireForm } from './form.ts';
import type { Ask, CallPart, Change, TextPart, TurnView, UserMessage } from './turn-view.ts';

export type TurnEnd = NonNullable<TurnView['end']>;

/** A request to the user, with the calls that it is about. */
export interface AcpAsk {
  ask: Ask;
  calls: CallPart[];
}

export type AcpFrame =
  | { kind: 'update'; update: SessionUpdate }
  /** Settled: nobody has to answer this any more. */
  | { kind: 'answered'; askId: string }
  | { kind: 'paused'; asks: AcpAsk[] }
  | { kind: 'ended'; end: TurnEnd };

/** After a reconnect, clients keep what they have: only what follows is sent. */
export const ACP: WireForm<AcpFrame> = {
  begin: () => [],
  show: (change, view) => show(change, view),
  finish: (view) => [finish(view)],
};

function show(change: Change, view: TurnView): AcpFrame[] {
  switch (change.kind) {
    case 'said':
      return saidUpdates(`${view.turnId}.input`, change);
    case 'text_opened':
      return [];
    case 'text_grew':
      return [textUpdate(view, change.part, { text: change.text })];
    case 'text_closed':
    case 'text_settled':
      return closed(view, change.part);
    case 'call_requested':
      return [update({ sessionUpdate: 'tool_call', ...named(change.call), ...requested(change.call) })];
    case 'call_begun':
      return [update({ sessionUpdate: 'tool_call', ...named(change.call), status: 'pending' })];
    case 'call_grew':
      return [];
    case 'calls_withdrawn':
      return change.calls.map(withdrawn);
    case 'call_written':
      return [update({ sessionUpdate: 'tool_call_update', ...requested(change.call) })];
    case 'call_started':
      return statusOf([change.call], 'in_progress');
    case 'call_edited':
      return [update({ sessionUpdate: 'tool_call_update', toolCallId: change.call.id, rawInput: change.call.input })];
    case 'call_settled':
      return [update({ sessionUpdate: 'tool_call_update', ...settled(change.call) })];
    case 'asked':
      return asked(change.ask, change.calls);
    case 'answered':
      return [
        ...statusOf(change.isApproved ? change.calls : [], 'in_progress'),
        { kind: 'answered', askId: change.ask.id },
      ];
    case 'message_changed':
      return messageUpdates(change.message);
    case 'ended':
      return [update(ending(view))];
  }
}

/** A message read by the turn appears in its place; one that begins the next turn is sent with that one. */
function messageUpdates({ id, text, files, status }: UserMessage): AcpFrame[] {
  if (status === 'begun') return [];
  if (status === 'read') return saidUpdates(`${id}.input`, { text, files });
  const drover = { message: { message_id: id, status } };
  return [update({ sessionUpdate: 'session_info_update', _meta: { drover } })];
}

/** A message of the user, with its files ahead. */
function saidUpdates(messageId: string, { text, files }: Pick<UserMessage, 'text' | 'files'>): AcpFrame[] {
  const sessionUpdate = 'user_message_chunk';
  const shown = files.map((file, place) => {
    const content = fileBlock(file, `drover:${messageId}/${place}`);
    return update({ sessionUpdate, messageId, content, _meta: { drover: { file: place } } });
  });
  return [...shown, update({ sessionUpdate, ...chunk(messageId, { text, mark: 'whole' }) })];
}

/** `uri`: for a text, which has no address. */
function fileBlock(file: Attachment, uri: string): ContentBlock {
  if (file.type === 'text') return { type: 'resource', resource: { uri, text: file.text, mimeType: 'text/plain' } };
  if (file.type === 'file') {
    const { file_id: id, filename: name, media_type: mimeType, size } = file;
    return { type: 'resource_link', uri: `/v1/files/${id}/content`, name, mimeType, size };
  }
  const { source } = file;
  if (source.type === 'url') return { type: 'resource_link', uri: source.url, name: 'image' };
  return { type: 'image', mimeType: source.media_type, data: source.data };
}

const update = (of: SessionUpdate): AcpFrame => ({ kind: 'update', update: of });

interface Piece {
  text: string;
  at?: number;
  mark?: 'whole' | 'void';
}

/** A piece of a message. `at` is its place in the text, so that clients can take repeated pieces. */
function chunk(messageId: string, { text, at = 0, mark }: Piece) {
  return {
    messageId,
    content: { type: 'text' as const, text },
    _meta: { drover: { at, ...(mark && { [mark]: true }) } },
  };
}

function textUpdate({ turnId }: TurnView, part: TextPart, { text, mark }: Pick<Piece, 'text' | 'mark'>): AcpFrame {
  const sessionUpdate = part.kind === 'text' ? ('agent_message_chunk' as const) : ('agent_thought_chunk' as const);
  const piece = { text, at: part.text.length - text.length, ...(mark && { mark }) };
  return update({ sessionUpdate, ...chunk(`${turnId}.${part.id}`, piece) });
}

/** A text that broke off gets neither mark. */
function closed(view: TurnView, part: TextPart): AcpFrame[] {
  if (part.isVoid) return [textUpdate(view, part, { text: '', mark: 'void' })];
  return part.step <= view.finishedStep ? [textUpdate(view, part, { text: '', mark: 'whole' })] : [];
}

function named({ id, tool }: CallPart) {
  return { toolCallId: id, title: tool, kind: 'other' as const };
}

/** The call is not in the log: the client should remove it. */
function withdrawn({ id }: CallPart): AcpFrame {
  const marks = { drover: { void: true } };
  return update({ sessionUpdate: 'tool_call_update', toolCallId: id, status: 'failed', _meta: marks });
}

/** Pending: whether somebody has to be asked first is not known yet. */
function requested({ id, input }: CallPart) {
  return { toolCallId: id, status: 'pending' as const, rawInput: input };
}

function settled({ id, state, output, error }: CallPart) {
  if (state === 'succeeded') {
    const text = typeof output === 'string' ? output : JSON.stringify(output);
    return { toolCallId: id, status: 'completed' as const, rawOutput: output, content: [textContent(text)] };
  }
  return { toolCallId: id, status: 'failed' as const, content: [textContent(error)] };
}

function textContent(text: string): ToolCallContent {
  return { type: 'content', content: { type: 'text', text } };
}

/** Questions are also sent as messages: not every client can ask for text. */
function asked({ id, kind, message }: Ask, calls: readonly CallPart[]): AcpFrame[] {
  const question = update({
    sessionUpdate: 'agent_message_chunk',
    ...chunk(`${id}.question`, { text: message, mark: 'whole' }),
  });
  return [...statusOf(calls, 'pending'), ...(kind === 'question' ? [question] : [])];
}

function statusOf(calls: readonly CallPart[], status: 'pending' | 'in_progress'): AcpFrame[] {
  return calls.map(({ id }) => update({ sessionUpdate: 'tool_call_update', toolCallId: id, status }));
}

/** Tells how a turn ended, for clients that come later: the sender of the prompt learns it from the answer. */
function ending({ turnId, end }: TurnView): SessionUpdate {
  const { status, stopReason, code, message } = end ?? { status: 'complete', stopReason: '', code: '', message: '' };
  const error = status === 'failed' && { error: { code, message } };
  const turn = { turn_id: turnId, status, stop_reason: stopReason, ...error };
  return { sessionUpdate: 'session_info_update', _meta: { drover: { turn } } };
}

function finish({ end, asks, parts }: TurnView): AcpFrame {
  if (end) return { kind: 'ended', end };
  const callsFor = (ask: Ask) =>
    parts.filter((part): part is CallPart => part.kind === 'call' && ask.calls.includes(part.id));
  return { kind: 'paused', asks: [...asks.values()].map((ask) => ({ ask, calls: callsFor(ask) })) };
}
