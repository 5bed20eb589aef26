/** How events change the taint of a turn (docs/security.md). */
import type { RunEvent, TurnInput } from './events.ts';
import { LIMITS } from './limits.ts';

/** Of a turn: the events that brought untrusted content. */
interface Taint {
  untrusted?: number[];
}

/** Of a run: the events that brought untrusted content to which no model has answered yet. They taint the next turn, too. */
interface Unread {
  untrustedUnread?: number[];
}

/**
 * Of a run: the event that announced its last model call, and the one up to which a model has answered. Absent before the first
 * call, and after calls of a build that did not note it: then nothing counts as answered.
 */
export interface Reading {
  read?: { asked: number; answered: number };
}

/**
 * Whether a message brings content that may be by somebody else: images, untrusted files, and texts of files or results
 * of another run that are marked so.
 */
export function isTaintedInput({ attachments = [], untrusted }: Pick<TurnInput, 'attachments' | 'untrusted'>): boolean {
  return (
    untrusted === true ||
    attachments.some((each) => each.type === 'image' || (each.type === 'file' && each.trust === 'untrusted'))
  );
}

/** What a turn starts with: its message, or the turn that it continues and whose message was read there. */
export interface Start {
  input: Pick<TurnInput, 'attachments' | 'untrusted'>;
  continues?: { untrusted?: true | undefined } | undefined;
}

/** Whether a turn's own start brings untrusted content. */
export function isTaintedStart({ input, continues }: Start): boolean {
  return continues ? continues.untrusted === true : isTaintedInput(input);
}

/** The initial taint of a turn: from what is unread, and from its own start. */
export function taintOfStart(
  { unread = [], untrustedUnread = [] }: Unread & { unread?: readonly TurnInput[] },
  event: Extract<RunEvent, { type: 'turn.started' }>,
): Taint {
  const { continues } = event.payload;
  const isTainted = isTaintedStart(event.payload) || (!continues && unread.some(isTaintedInput));
  const known = untrustedUnread.length > 0 ? { untrusted: untrustedUnread } : {};
  return isTainted ? { ...known, ...taintedBy(known, event) } : known;
}

type Late = Extract<RunEvent, { type: 'run.created' | 'run.forked' | 'tool.resolved' }>;

/** After an event that may bring an untrusted result outside of its answer's step. */
export function unreadAfter({ untrustedUnread }: Unread, event: Late): Unread {
  return event.payload.untrusted ? unreadWith(untrustedUnread, [event.seq]) : {};
}

/** A model is asked, and is shown what has come so far. */
export function asked({ read, untrustedUnread }: Reading & Unread, { seq }: RunEvent): Reading & Unread {
  return { read: { asked: seq, answered: read?.answered ?? 0 }, ...(untrustedUnread && { untrustedUnread: [] }) };
}

/**
 * A model has answered: to its own findings, too, and to all but the late results that came while it was asked. An empty answer
 * answers to nothing.
 */
export function answeredTo(
  { turn, read }: Reading & { turn: Taint | null },
  { seq, payload }: Extract<RunEvent, { type: 'model.responded' }>,
): Reading {
  if (!read || payload.empty) return {};
  const isLate = turn?.untrusted?.some((brought) => brought > read.asked);
  return { read: { ...read, answered: isLate ? read.asked : seq } };
}

/** After a turn, however it ended: what it had brought and no model has answered to. */
export function unreadAtEnd({ turn, read, untrustedUnread }: Reading & Unread & { turn: Taint | null }): Unread {
  const left = turn?.untrusted?.filter((seq) => seq > (read?.answered ?? 0)) ?? [];
  return left.length > 0 ? unreadWith(untrustedUnread, left) : {};
}

function unreadWith(known: readonly number[] | undefined, seqs: readonly number[]): Unread {
  return { untrustedUnread: [...new Set([...(known ?? []), ...seqs])].slice(0, LIMITS.taintedBy) };
}

/** The taint from a steering message. */
export function taintBySteering<T extends Taint>(turn: T | null, event: RunEvent): { turn?: T } {
  if (!turn || event.type !== 'message.dequeued' || !event.payload.untrusted) return {};
  return { turn: { ...turn, ...taintedBy(turn, event) } };
}

/** The taint from an untrusted result: its call was untrusted as requested, or its answer is. */
export function taintOfAnswer(
  turn: Taint | null,
  call: { untrusted?: true } | undefined,
  event: Extract<RunEvent, { type: `tool.${string}` }>,
): Taint {
  const isAnswer = ['tool.succeeded', 'tool.failed', 'tool.resolved'].includes(event.type);
  const isUntrusted = call?.untrusted ?? ('untrusted' in event.payload && event.payload.untrusted);
  return isAnswer && isUntrusted ? taintedBy(turn, event) : {};
}

/** Adds an untrusted event to the taint, which applies to all calls that the model requests from then on. */
export function taintedBy(turn: Taint | null, event: RunEvent): Taint {
  if (event.type === 'memory.retrieved' && event.payload.entries.every(({ trusted }) => trusted)) return {};
  const known = turn?.untrusted ?? [];
  // The last one is always known: it tells whether the turn ends with something that no model has read.
  return { untrusted: [...known.slice(0, LIMITS.taintedBy - 1), event.seq] };
}
