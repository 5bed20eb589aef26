/** A turn's calls: in pieces while their arguments are written, whole once logged. */
import type { StoredBlock } from '../../core/content.ts';
import { canonicalJson } from '../../core/canonical-json.ts';
import type { BusMessage } from '../../bus/bus.ts';
import { closeText, lengthOfTexts } from './turn-text.ts';
import type { CallPart, Change, TurnView } from './turn-view.ts';

type CallPiece = Extract<BusMessage, { kind: 'call_piece' }>;

/** Adds a piece if it fits what is there; else drops it, since the log brings the whole call. */
export function growCall(view: TurnView, piece: CallPiece): Change[] {
  const { callId, step, place, text, at, after } = piece;
  const known = view.parts.find((part): part is CallPart => part.kind === 'call' && part.id === callId);
  if (known) {
    if (known.state !== 'writing' || at !== known.written.length || text === '') return [];
    return [grow(known, text)];
  }
  if (at !== 0) return [];
  // The model has restarted its answer, this time with a call.
  const isAnew = place === 0 && after === 0 && lengthOfTexts(view, step) > 0;
  const changes = [...(place === 0 ? withdrawCalls(view) : []), ...(isAnew ? closeText(view, { isVoid: true }) : [])];
  // As in the log: all texts of the answer first, then its calls in order.
  if (place !== writtenIn(view).length || after !== lengthOfTexts(view, step)) return changes;
  const call: CallPart = { ...newCall({ id: callId, step, place, tool: piece.tool }), state: 'writing' };
  view.parts.push(call);
  return [...changes, { kind: 'call_begun', call }, ...(text === '' ? [] : [grow(call, text)])];
}

/** Adds a logged call: completes the one shown while it was written, or shows all of it. */
export function requestCall(view: TurnView, requested: Omit<NewCall, 'place'> & { place: unknown }): Change[] {
  const { id, step, tool, input } = requested;
  const place = typeof requested.place === 'number' ? requested.place : -1;
  const written = writtenIn(view).find((call) => call.id === id);
  if (written) {
    Object.assign(written, { state: 'requested', input, tool });
    return [{ kind: 'call_written', call: written }];
  }
  const withdrawn = withdrawCalls(view, (call) => call.step === step && call.place >= place);
  const call = newCall({ id, step, place, tool, input });
  view.parts.push(call);
  return [...withdrawn, { kind: 'call_requested', call }];
}

/** Withdraws written calls that the answer does not have in their place. */
export function checkWritten(view: TurnView, answer: { step: number; content: readonly StoredBlock[] }): Change[] {
  const uses = answer.content.filter((block) => block.type === 'tool_use');
  return withdrawCalls(view, ({ step, place, tool }) => step === answer.step && uses[place]?.name !== tool);
}

/** Withdraws calls shown while they were written: they belong to a void attempt. */
export function withdrawCalls(view: TurnView, isVoid: (call: CallPart) => boolean = () => true): Change[] {
  const calls = writtenIn(view).filter(isVoid);
  for (const call of calls) call.state = 'withdrawn';
  return calls.length > 0 ? [{ kind: 'calls_withdrawn', calls }] : [];
}

/** Whether the written arguments equal the logged ones as JSON. */
export function isAsWritten({ written, input }: CallPart): boolean {
  try {
    return canonicalJson(JSON.parse(written)) === canonicalJson(input);
  } catch {
    return false;
  }
}

interface NewCall {
  id: string;
  step: number;
  place: number;
  tool: string;
  input?: unknown;
}

function newCall({ input = {}, ...named }: NewCall): CallPart {
  const { id, step, place, tool } = named;
  return {
    kind: 'call',
    id,
    step,
    place,
    tool,
    input,
    written: '',
    state: 'requested',
    isBegun: false,
    isResolved: false,
    isWaiting: false,
    output: null,
    error: '',
    isRefused: false,
    isOfClient: false,
    settledAt: 0,
  };
}

function grow(call: CallPart, text: string): Change {
  call.written += text;
  return { kind: 'call_grew', call, text };
}

function writtenIn(view: TurnView): CallPart[] {
  return view.parts.filter((part): part is CallPart => part.kind === 'call' && part.state === 'writing');
}
