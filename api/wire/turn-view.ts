/** A turn as front ends see it, and how it changes. It knows no protocol. */
import type { BusMessage } from '../../bus/bus.ts';

export interface TextPart {
  kind: 'text' | 'reasoning';
  /** `{step}.{place among the step's texts that count}`: the same in every stream of the turn. */
  id: string;
  step: number;
  text: string;
  isOpen: boolean;
  /** The model began its answer again: this was said by an attempt that is void. */
  isVoid: boolean;
}

export interface CallPart {
  kind: 'call';
  id: string;
  step: number;
  /** Which of the step's calls, from 0. */
  place: number;
  tool: string;
  input: unknown;
  /** Its arguments as JSON, as far as they were shown while they were written. */
  written: string;
  /** `writing`: the log does not have it yet; `withdrawn`: it never will, since the attempt that has written it is void. */
  state: 'writing' | 'withdrawn' | 'requested' | 'succeeded' | 'failed' | 'denied' | 'unknown';
  /** It waits for time, or for another system. */
  isWaiting: boolean;
  output: unknown;
  error: string;
  /** A person has said no to it. */
  isRefused: boolean;
  /** Place in the log of its result; 0 before that. */
  settledAt: number;
}

/** What somebody is asked. */
export interface Ask {
  /** The approval's id, or the call's. */
  id: string;
  kind: 'approval' | 'unknown' | 'question' | 'client_tool';
  /** What it is about: one call, all that wait of a call batch, or, for a budget, none. */
  calls: string[];
  tool: string;
  message: string;
}

export type Part = TextPart | CallPart;

/** What the user has said while the turn was open. */
export interface UserMessage {
  id: string;
  text: string;
  /** It waits, was read by this turn, has begun the next one, or a newer one has taken its place. */
  status: 'waiting' | 'read' | 'begun' | 'replaced';
  /** The turn had read it in the run that this one was forked from: no newer message takes its place. */
  isAgain?: boolean;
  /** How many parts the turn had when it was read. */
  place: number;
  /** The turn that it has begun, and its place in the log. */
  next: { turnId: string; seq: number } | null;
}

export interface TurnView {
  turnId: string;
  message: string;
  parts: Part[];
  /** In their order. */
  messages: UserMessage[];
  /** Open ones. */
  asks: Map<string, Ask>;
  runStatus: string;
  /** Nothing goes on until somebody answers. */
  isPaused: boolean;
  /** Where that began: since then nobody has answered. */
  pausedAt: number;
  isAnswered: boolean;
  /** The last step whose answer the log has. */
  finishedStep: number;
  /** The last step for which a model is known to have been asked. */
  calledStep: number;
  /** Place of the last event. */
  seq: number;
  end: { status: 'complete' | 'failed' | 'cancelled'; stopReason: string; code: string; message: string } | null;
}

export type Change =
  | { kind: 'said'; text: string }
  | { kind: 'text_opened' | 'text_closed'; part: TextPart }
  | { kind: 'text_grew'; part: TextPart; text: string }
  /** What was closed while its answer was being written has come to be in the log, or is void. */
  | { kind: 'text_settled'; part: TextPart }
  | { kind: 'call_begun'; call: CallPart }
  | { kind: 'call_grew'; call: CallPart; text: string }
  /** `call_written`: the log has what was shown while it was written. */
  /** `call_started`: it is being made, or waits for time or another system. */
  | { kind: 'call_requested' | 'call_written' | 'call_started' | 'call_edited' | 'call_settled'; call: CallPart }
  | { kind: 'calls_withdrawn'; calls: CallPart[] }
  | { kind: 'asked'; ask: Ask; calls: CallPart[] }
  | { kind: 'answered'; ask: Ask; isApproved: boolean; calls: CallPart[] }
  | { kind: 'message_changed'; message: UserMessage }
  | { kind: 'ended' };

export type Delta = Extract<BusMessage, { kind: 'delta' | 'call_piece' }>;

/** A turn before its first event. */
export function beforeTurn(turnId: string): TurnView {
  return {
    turnId,
    message: '',
    parts: [],
    messages: [],
    asks: new Map(),
    runStatus: 'executing',
    isPaused: false,
    pausedAt: 0,
    isAnswered: true,
    finishedStep: 0,
    calledStep: 0,
    seq: 0,
    end: null,
  };
}

/** The calls that the turn has asked for so far. */
export function callsOf(view: TurnView): CallPart[] {
  const isAsked = ({ state }: CallPart) => state !== 'writing' && state !== 'withdrawn';
  return view.parts.filter((part): part is CallPart => part.kind === 'call' && isAsked(part));
}
