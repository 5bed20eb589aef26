/**
 * A turn as the message that a client of the AI SDK builds from its UI message stream: does with the log's chunks what
 * the SDK's reader does.
 */
import { z } from 'zod';
import type { LoggedEvent } from '../../modules/runs/read-runs.ts';
import type { ShownTurn } from '../../modules/sessions/converse.ts';
import { isPausedBeyond } from './form.ts';
import { framesOf } from './replay-thread.ts';
import { beforeTurn, type Change, type TurnView } from './turn-view.ts';
import { UI_STREAM, type Chunk } from './ui-stream.ts';

const part = z.looseObject({ type: z.string() });
type Part = z.output<typeof part>;

export const uiMessage = z
  .object({
    id: z.string().describe("Of the assistant's: the turn's."),
    role: z.enum(['user', 'assistant']),
    metadata: z.record(z.string(), z.unknown()),
    parts: z.array(part).describe('As in the messages of `useChat`.'),
  })
  .meta({ id: 'UiMessage' });
export type UiMessage = z.output<typeof uiMessage>;

/** A partly read turn. */
export interface TurnReader {
  take: (event: LoggedEvent) => void;
  /** The message so far, with the stream's end if the turn has ended or waits for its client. */
  message: () => UiMessage;
}

/** Reads a turn from its first event on. */
export function readTurn(turn: ShownTurn): TurnReader {
  const view = beforeTurn(turn.turnId);
  const read = beginMessage();
  for (const chunk of UI_STREAM.begin(view, turn)) read.take(chunk);
  return {
    take(event) {
      const show = (change: Change) => {
        if (change.kind === 'answered') read.decide(change, event);
        return UI_STREAM.show(change, view);
      };
      for (const chunk of framesOf(view, event, { show })) read.take(chunk);
    },
    message() {
      if (isOver(view, turn)) for (const chunk of UI_STREAM.finish(view)) read.take(chunk);
      return read.message;
    },
  };
}

function isOver(view: TurnView, turn: ShownTurn): boolean {
  return view.end !== null || isPausedBeyond(view, turn);
}

interface Reading {
  message: UiMessage;
  /** Unfinished texts, by kind and id. */
  open: Map<string, Part>;
  /** By call. */
  approvals: Map<unknown, Approval>;
}

interface Approval {
  id: unknown;
  descriptor?: unknown;
  approved?: boolean;
  reason?: string;
}

interface MessageReader {
  message: UiMessage;
  take: (chunk: Chunk) => void;
  /** Takes a decision, of which the stream has no chunk. */
  decide: (answered: Answered, event: LoggedEvent) => void;
}

type Answered = Extract<Change, { kind: 'answered' }>;

function beginMessage(): MessageReader {
  const message: UiMessage = { id: '', role: 'assistant', metadata: {}, parts: [] };
  const reading: Reading = { message, open: new Map(), approvals: new Map() };
  return {
    message,
    take: (chunk) => takeChunk(reading, chunk),
    decide: (answered, event) => takeDecision(reading, answered, event),
  };
}

/** Of a decision; the end of a turn has a reason of its own. */
const withReason = z.object({ approval_id: z.unknown(), reason: z.string() }).transform(({ reason }) => ({ reason }));

/** Shown with the call's output. */
function takeDecision({ approvals }: Reading, { ask, isApproved, calls }: Answered, event: LoggedEvent): void {
  const { data: reason } = withReason.safeParse(event.payload);
  for (const { id } of calls) {
    const approval = approvals.get(id);
    const isLast = approval?.id === ask.id;
    // A refusal ends the call, also one of a question about several that was asked before the last.
    if (isLast || !isApproved)
      approvals.set(id, { ...(isLast ? approval : { id: ask.id }), approved: isApproved, ...reason });
  }
}

function takeChunk(reading: Reading, chunk: Chunk): void {
  const { message, open } = reading;
  switch (chunk.type) {
    case 'start':
      message.id = String(chunk['messageId']);
      noteMetadata(message, chunk);
      return;
    case 'finish':
      noteMetadata(message, chunk);
      return;
    case 'start-step':
      message.parts.push({ type: 'step-start' });
      return;
    case 'finish-step':
      open.clear();
      return;
    case 'text-start':
    case 'reasoning-start':
    case 'text-delta':
    case 'reasoning-delta':
    case 'text-end':
    case 'reasoning-end':
      takeText(reading, chunk);
      return;
    case 'tool-input-available':
      takeInput(reading, chunk);
      return;
    case 'tool-approval-request': {
      const { approvalId: id, approvalDescriptor: descriptor, toolCallId } = chunk;
      const approval = { id, descriptor };
      reading.approvals.set(toolCallId, approval);
      forgetOutcome(Object.assign(toolOf(message, toolCallId), { state: 'approval-requested', approval }));
      return;
    }
    case 'tool-output-available':
    case 'tool-output-denied':
    case 'tool-output-error':
      takeOutput(reading, chunk);
      return;
    default:
      if (chunk.type.startsWith('data-') && chunk['transient'] !== true) takeData(message, chunk);
  }
}

function noteMetadata({ metadata }: UiMessage, { messageMetadata }: Chunk): void {
  Object.assign(metadata, messageMetadata);
}

function takeText({ message, open }: Reading, { type, id, delta, providerMetadata }: Chunk): void {
  const [kind = '', act] = type.split('-');
  const key = `${kind} ${String(id)}`;
  if (act === 'start') {
    const begun: Part = { type: kind, ...(kind === 'reasoning' && { id }), text: '', state: 'streaming' };
    open.set(key, begun);
    message.parts.push(begun);
    return;
  }
  const text = open.get(key);
  if (!text) return;
  if (act === 'delta') text['text'] = `${String(text['text'])}${String(delta)}`;
  else open.delete(key);
  Object.assign(text, act === 'end' && { state: 'done' }, providerMetadata !== undefined && { providerMetadata });
}

/** Calls are matched within their step only. */
function takeInput({ message }: Reading, { toolCallId, toolName, input, providerExecuted }: Chunk): void {
  const type = `tool-${String(toolName)}`;
  const step = message.parts.findLastIndex((each) => each.type === 'step-start');
  const known = message.parts.find((each, place) => place > step && each['toolCallId'] === toolCallId);
  const told = { type, state: 'input-available', input, providerExecuted };
  // A call that goes on after its approval has none until its output.
  if (known) {
    delete Object.assign(known, told)['approval'];
    forgetOutcome(known);
  } else message.parts.push({ toolCallId, ...told });
}

/** What is told last counts: of an outcome that was unknown, an error may have been told first. */
function forgetOutcome(tool: Part): void {
  delete tool['output'];
  delete tool['errorText'];
}

function toolOf({ parts }: UiMessage, toolCallId: unknown): Part {
  const known = parts.findLast((each) => each['toolCallId'] === toolCallId);
  if (!known) throw new Error(`No part shows the call ${String(toolCallId)}.`);
  return known;
}

/** An output has the approval that allowed it, a denial the one that did not. */
function takeOutput({ message, approvals }: Reading, { type, output, errorText, toolCallId }: Chunk): void {
  const tool = toolOf(message, toolCallId);
  const approval = approvals.get(toolCallId);
  tool['state'] = type.slice('tool-'.length);
  forgetOutcome(tool);
  if (type === 'tool-output-available') tool['output'] = output;
  if (type === 'tool-output-error') tool['errorText'] = errorText;
  const isOfOutput = approval?.approved === (type !== 'tool-output-denied');
  if (isOfOutput) tool['approval'] = approval;
  else delete tool['approval'];
}

/** Data with a known id replaces the earlier. */
function takeData({ parts }: UiMessage, chunk: Chunk): void {
  const known = parts.find(({ type, id }) => type === chunk.type && id === chunk['id']);
  if (known) known['data'] = chunk['data'];
  else parts.push({ ...chunk });
}
