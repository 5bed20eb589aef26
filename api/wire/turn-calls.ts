/** Calls of a turn: piece by piece while their arguments are written, and whole once they are in the log. */
import type { StoredBlock } from '../../core/content.ts';
import { canonicalJson } from '../../core/canonical-json.ts';
import type { BusMessage } from '../../bus/bus.ts';
import { closeText, lengthOfTexts } from './turn-text.ts';
import type { CallPart, Change, TurnView } from './turn-view.ts';

type CallPiece = Extract<BusMessage, { kind: 'call_piece' }>;

/** Adds a piece where it follows what is there. One that does not is left out: the log will have the call. */
export function growCall(view: TurnView, piece: CallPiece): Change[] {
  const { callId, step, place, text, at, after } = piece;
  const known = view.parts.find((part): part is CallPart => part.kind === 'call' && part.id === callId);
  if (known) {
    if (known.state !== 'writing' || at !== known.written.length || text === '') return [];
    return [grow(known, text)];
  }
  if (at !== 0) return [];
  // The model has begun its answer again, this time with a call.
  const isAnew = place === 0 && after === 0 && lengthOfTexts(view, step) > 0;
  const changes = [...(place === 0 ? withdrawCalls(view) : []), ...(isAnew ? closeText(view, { isVoid: true }) : [])];
  // A client that is told of the log alone has the answer's texts before its calls, and those in their order.
  if (place !== writtenIn(view).length || after !== lengthOfTexts(view, step)) return changes;
  const call: CallPart = { ...newCall({ id: callId, step, place, tool: piece.tool }), state: 'writing' };
  view.parts.push(call);
  return [...changes, { kind: 'call_begun', call }, ...(text === '' ? [] : [grow(call, text)])];
}

/** The call as the log has it: what was shown of it while it was written, or, where that is another one, all of it. */
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

/** Of the calls that were shown while they were written those that the answer does not have in their place are void. */
export function checkWritten(view: TurnView, answer: { step: number; content: readonly StoredBlock[] }): Change[] {
  const uses = answer.content.filter((block) => block.type === 'tool_use');
  return withdrawCalls(view, ({ step, place, tool }) => step === answer.step && uses[place]?.name !== tool);
}

/** Takes back calls that were shown while they were written: an attempt that is void has written them. */
export function withdrawCalls(view: TurnView, isVoid: (call: CallPart) => boolean = () => true): Change[] {
  const calls = writtenIn(view).filter(isVoid);
  for (const call of calls) call.state = 'withdrawn';
  return calls.length > 0 ? [{ kind: 'calls_withdrawn', calls }] : [];
}

/** Whether the arguments that were shown are those that the log has, however they are written. */
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
    isWaiting: false,
    output: null,
    error: '',
    isRefused: false,
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
