/** A turn as front ends see it, and its changes. Independent of protocols. */
import type { BusMessage } from '../../bus/bus.ts';
import type { Attachment } from '../../core/content.ts';

export interface TextPart {
  kind: 'text' | 'reasoning';
  /** `{step}.{place among the step's valid texts}`: the same in every stream of the turn. */
  id: string;
  step: number;
  text: string;
  isOpen: boolean;
  /** Written by an attempt that the model abandoned to begin its answer again. */
  isVoid: boolean;
}

export interface CallPart {
  kind: 'call';
  id: string;
  step: number;
  /** Its place among the step's calls, from 0. */
  place: number;
  tool: string;
  input: unknown;
  /** Its arguments as JSON, as far as shown while being written. */
  written: string;
  /** `writing`: not in the log yet; `withdrawn`: never will be, since its attempt is void. */
  state: 'writing' | 'withdrawn' | 'requested' | 'succeeded' | 'failed' | 'denied' | 'unknown';
  /** An attempt has begun, or what it waits for. */
  isBegun: boolean;
  /** Somebody, or a late result, has said what became of it, if only that nobody will know. */
  isResolved: boolean;
  /** It waits for time or for another system. */
  isWaiting: boolean;
  output: unknown;
  error: string;
  /** Its approval has ended without consent: denied, expired or settled. */
  isRefused: boolean;
  /** The client was asked for its result. */
  isOfClient: boolean;
  /** Log position of its result; 0 before that. */
  settledAt: number;
}

/** A request to the user. */
export interface Ask {
  /** The id of the approval or the call. */
  id: string;
  kind: 'approval' | 'unknown' | 'question' | 'client_tool';
  /** One call, all waiting calls of a batch, or, for a budget, none. */
  calls: string[];
  tool: string;
  message: string;
}

export type Part = TextPart | CallPart;

/** A user message during the turn. */
export interface UserMessage {
  id: string;
  text: string;
  files: readonly Attachment[];
  /** Waiting, read by this turn, the beginning of the next one, or replaced by a newer one. */
  status: 'waiting' | 'read' | 'begun' | 'replaced';
  /** It was read in the run that this one was forked from: no newer message replaces it. */
  isAgain?: boolean;
  /** Number of parts when it was read. */
  place: number;
  /** The turn it began, and its position in the log. */
  next: { turnId: string; seq: number } | null;
}

export interface TurnView {
  turnId: string;
  message: string;
  parts: Part[];
  /** In order of arrival. */
  messages: UserMessage[];
  /** Open ones. */
  asks: Map<string, Ask>;
  runStatus: string;
  /** Nothing goes on before somebody answers. */
  isPaused: boolean;
  /** Position where that began; no answers since. */
  pausedAt: number;
  isAnswered: boolean;
  /** The last step with a logged answer. */
  finishedStep: number;
  /** The last step known to have called a model. */
  calledStep: number;
  /** What is logged of the last answer that broke off. */
  partial: { step: number; text: string } | null;
  /** Position of the last event. */
  seq: number;
  end: { status: 'complete' | 'failed' | 'cancelled'; stopReason: string; code: string; message: string } | null;
}

export type Change =
  | { kind: 'said'; text: string; files: readonly Attachment[] }
  | { kind: 'text_opened' | 'text_closed'; part: TextPart }
  | { kind: 'text_grew'; part: TextPart; text: string }
  /** A text that was closed during its answer is now logged, or void. */
  | { kind: 'text_settled'; part: TextPart }
  | { kind: 'call_begun'; call: CallPart }
  | { kind: 'call_grew'; call: CallPart; text: string }
  /** `call_written`: a call shown while it was written is now logged. */
  /** `call_started`: it runs, or waits for time or another system. */
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
    partial: null,
    seq: 0,
    end: null,
  };
}

/** The turn's calls in the log so far. */
export function callsOf(view: TurnView): CallPart[] {
  const isAsked = ({ state }: CallPart) => state !== 'writing' && state !== 'withdrawn';
  return view.parts.filter((part): part is CallPart => part.kind === 'call' && isAsked(part));
}
