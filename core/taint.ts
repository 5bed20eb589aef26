/** What events mean for the taint of a turn (docs/security.md). */
import type { RunEvent, TurnInput } from './events.ts';
import { LIMITS } from './limits.ts';

/** Of a turn: the events that brought untrusted content. */
interface Taint {
  untrusted?: number[];
}

/**
 * Whether a message brings what somebody else than its sender may have made: images, files that nobody vouches for, and what
 * another run has come to that had read such things.
 */
export function isTaintedInput({ attachments = [], untrusted }: Pick<TurnInput, 'attachments' | 'untrusted'>): boolean {
  return (
    untrusted === true ||
    attachments.some((each) => each.type === 'image' || (each.type === 'file' && each.trust === 'untrusted'))
  );
}

/** What a turn begins with: its own message, those that no model has read yet, or what the turn that it goes on with had read. */
export function taintOfStart(
  { unread = [] }: { unread?: readonly TurnInput[] },
  event: Extract<RunEvent, { type: 'turn.started' }>,
): Taint {
  const { input, continues } = event.payload;
  const isTainted = continues ? continues.untrusted : [...unread, input].some(isTaintedInput);
  return isTainted ? taintedBy(null, event) : {};
}

/** A message that steers a turn may bring what taints it. */
export function taintBySteering<T extends Taint>(turn: T | null, event: RunEvent): { turn?: T } {
  if (!turn || event.type !== 'message.dequeued' || !event.payload.untrusted) return {};
  return { turn: { ...turn, ...taintedBy(turn, event) } };
}

/** What a call has answered for which nobody vouches: as it was asked for, or as its answer turned out. */
export function taintOfAnswer(
  turn: Taint | null,
  call: { untrusted?: true } | undefined,
  event: Extract<RunEvent, { type: `tool.${string}` }>,
): Taint {
  const isAnswer = ['tool.succeeded', 'tool.failed', 'tool.resolved'].includes(event.type);
  const isUntrusted = call?.untrusted ?? (event.type === 'tool.succeeded' && event.payload.untrusted);
  return isAnswer && isUntrusted ? taintedBy(turn, event) : {};
}

/** What an event brings that nobody vouches for taints the calls that the model asks for from then on. */
export function taintedBy(turn: Taint | null, event: RunEvent): Taint {
  if (event.type === 'memory.retrieved' && event.payload.entries.every(({ trusted }) => trusted)) return {};
  const known = turn?.untrusted ?? [];
  return known.length < LIMITS.taintedBy ? { untrusted: [...known, event.seq] } : {};
}
