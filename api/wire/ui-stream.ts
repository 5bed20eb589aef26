/** The UI message stream of the AI SDK, version 1: a turn is one message, whose id is the turn's (docs/wire-forms.md). */
import type { Ask, CallPart, Change, TextPart, TurnView } from './turn-view.ts';
import type { ShortForm } from './follow-message.ts';

/** One of its `UIMessageChunk`s. */
export type Chunk = { type: string } & Record<string, unknown>;

/** After a cut, a message is sent again from its start: the client's reader begins it anew. */
export const UI_STREAM: ShortForm<Chunk> = {
  begin: (_view, { turnId, runId, threadId }) => {
    // At work until the stream ends: a client that posts answers by itself must not do so before, or if it leaves.
    const about = { turn_id: turnId, run_id: runId, thread_id: threadId, status: 'executing' };
    return [{ type: 'start', messageId: turnId, messageMetadata: about }];
  },
  show,
  finish,
  wait: (messageId, status) => [
    { type: 'data-message', data: { message_id: messageId, status }, transient: true },
    ...(status === 'waiting' ? [] : [{ type: 'finish', finishReason: 'other' }]),
  ],
};

function show(change: Change, view: TurnView): Chunk[] {
  switch (change.kind) {
    case 'text_opened':
      return [...stepBefore(change.part, view), { type: `${change.part.kind}-start`, id: change.part.id }];
    case 'text_grew':
      return [{ type: `${change.part.kind}-delta`, id: change.part.id, delta: change.text }];
    case 'text_closed':
      return [closed(change.part)];
    case 'call_requested':
      return [...stepBefore(change.call, view), inputOf(change.call, true)];
    case 'call_begun':
      return [...stepBefore(change.call, view), begun(change.call)];
    case 'call_grew':
      return [{ type: 'tool-input-delta', toolCallId: change.call.id, inputTextDelta: change.text }];
    case 'calls_withdrawn':
      return change.calls.map(withdrawn);
    case 'call_written':
    case 'call_edited':
      return [inputOf(change.call, true)];
    case 'call_settled':
      return settled(change.call);
    case 'asked':
      return asked(change.ask, change.calls);
    case 'answered':
      return answered(change);
    case 'message_changed': {
      const { id, text, status } = change.message;
      return [{ type: 'data-message', id, data: { message_id: id, text, status } }];
    }
    case 'text_settled':
    case 'call_started':
    case 'said':
    case 'ended':
      return [];
  }
}

/** A step begins with its first part. */
function stepBefore(part: TextPart | CallPart, { parts }: TurnView): Chunk[] {
  if (parts.find(({ step }) => step >= part.step) !== part) return [];
  return [...(parts[0] === part ? [] : [{ type: 'finish-step' }]), { type: 'start-step' }];
}

function closed({ kind, id, isVoid }: TextPart): Chunk {
  return { type: `${kind}-end`, id, ...(isVoid && { providerMetadata: { drover: { void: true } } }) };
}

function begun({ id, tool }: CallPart): Chunk {
  return { type: 'tool-input-start', toolCallId: id, toolName: tool, providerExecuted: true };
}

/** Marks a call as failed: parts of a message cannot be removed. */
function withdrawn({ id, tool, written }: CallPart): Chunk {
  const errorText = 'The model has begun its answer anew.';
  const providerMetadata = { drover: { void: true } };
  const call = { toolCallId: id, toolName: tool, input: written, providerExecuted: true };
  return { type: 'tool-input-error', ...call, errorText, providerMetadata };
}

/** `providerExecuted` for Drover's calls, so that the client does not execute them, too. */
function inputOf({ id, tool, input }: CallPart, providerExecuted: boolean): Chunk {
  return { type: 'tool-input-available', toolCallId: id, toolName: tool, input, providerExecuted };
}

function settled({ id, state, output, error, isRefused }: CallPart): Chunk[] {
  if (state === 'succeeded') return [{ type: 'tool-output-available', toolCallId: id, output }];
  if (state === 'denied' && isRefused) return [{ type: 'tool-output-denied', toolCallId: id }];
  return [{ type: 'tool-output-error', toolCallId: id, errorText: error }];
}

/** The calls of a batch share its approval's id: one answer is for all. */
function asked(ask: Ask, calls: readonly CallPart[]): Chunk[] {
  if (ask.kind === 'question' || ask.kind === 'client_tool') return calls.map((call) => inputOf(call, false));
  if (ask.kind === 'unknown' || calls.length === 0) return [approvalData(ask, 'pending')];
  const approvalDescriptor = { kind: ask.kind, message: ask.message };
  return calls.map(({ id }) => ({
    type: 'tool-approval-request',
    approvalId: ask.id,
    toolCallId: id,
    approvalDescriptor,
  }));
}

function answered({ ask, isApproved, calls }: Extract<Change, { kind: 'answered' }>): Chunk[] {
  if (ask.kind === 'question' || ask.kind === 'client_tool') return [];
  if (ask.kind === 'unknown' || calls.length === 0) return [approvalData(ask, 'answered')];
  return isApproved ? calls.map((call) => inputOf(call, true)) : [];
}

/** For requests that are about no call, or that yes or no cannot answer. */
function approvalData({ id, kind, calls, tool, message }: Ask, status: 'pending' | 'answered'): Chunk {
  return { type: 'data-approval', id, data: { approval_id: id, kind, calls, tool, message, status } };
}

const FINISH_REASONS = { complete: 'stop', failed: 'error', cancelled: 'other' } as const;

function finish(view: TurnView): Chunk[] {
  return [...stepAfter(view), ...endOf(view)];
}

/** A client that finds its answers in the last step posts them, after each stream anew: an ended turn has a step after them. */
function stepAfter({ end, parts }: TurnView): Chunk[] {
  const last = parts.at(-1)?.step;
  const isAnswered = parts.some((part) => part.kind === 'call' && part.step === last && part.isOfClient);
  return end && isAnswered ? [{ type: 'finish-step' }, { type: 'start-step' }] : [];
}

function endOf({ end, turnId, runStatus }: TurnView): Chunk[] {
  if (!end) return [{ type: 'finish', finishReason: 'tool-calls', messageMetadata: { status: runStatus } }];
  const { status, stopReason, code, message } = end;
  const metadata = { status, stop_reason: stopReason };
  const finished = { type: 'finish', finishReason: FINISH_REASONS[status], messageMetadata: metadata };
  if (status === 'cancelled') return [{ type: 'abort', reason: stopReason }, finished];
  if (status === 'complete') return [finished];
  // The client's reader stops at an error: chunks to keep come first.
  const error = { type: 'data-turn_error', id: turnId, data: { code, message } };
  return [error, finished, { type: 'error', errorText: message }];
}
