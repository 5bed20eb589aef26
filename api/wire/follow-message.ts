/** Streams for the sender of a message during a turn. */
import { EVENT_TYPES } from '../../core/events.ts';
import type { Context } from '../../modules/governance/context.ts';
import { streamRun, type StreamItem } from '../../modules/runs/stream-run.ts';
import { findTurnAfterHandoff } from '../../modules/sessions/after-handoff.ts';
import type { ShownTurn } from '../../modules/sessions/converse.ts';
import {
  changesOf,
  foldUntil,
  followTurn,
  isPausedBeyond,
  placeIn,
  shownOf,
  showTurn,
  type FollowedTurn,
  type LongForm,
  type Sent,
  type WireForm,
} from './form.ts';
import { beforeTurn, type TurnView, type UserMessage } from './turn-view.ts';

interface FollowedMessage extends FollowedTurn {
  /** The message waiting for the turn. */
  messageId: string;
}

/**
 * Streams the current turn, then the one that the message begins. After a handoff, the message waits for the end of the
 * other agent's turn, which comes in between, and so on. Ends if a turn waits for its client.
 */
export async function* followThrough<Frame>(
  context: Context,
  request: FollowedMessage,
  form: LongForm<Frame>,
): AsyncGenerator<Sent<Frame>> {
  const { tenantId, turn, messageId } = request;
  const after = Math.max(request.after, turn.start);
  const view = await foldUntil(context, { tenantId, turn, until: after });
  const begun = nextTurn(messageIn(view, messageId), turn);
  if (begun) {
    const nextView = await foldUntil(context, { tenantId, turn: begun, until: after });
    yield* showTurn({ view: nextView, turn: begun, items: itemsAfter(context, request, after) }, form.next(view));
    return;
  }
  yield { frames: form.begin(view, turn), at: placeIn(view, turn) };
  if (!isOver(view, request)) {
    for await (const item of itemsAfter(context, request, after)) {
      const frames = shownOf(changesOf(view, item), view, form);
      if (frames.length > 0) yield { frames, ...(item.kind === 'logged' && { at: placeIn(view, turn) }) };
      else if (item.kind === 'ping') yield { frames };
      if (messageIn(view, messageId)?.next || isOver(view, request)) break;
    }
  }
  const next = nextTurn(messageIn(view, messageId), turn);
  if (next) {
    const items = itemsAfter(context, request, next.start - 1);
    yield* showTurn({ view: beforeTurn(next.turnId), turn: next, items }, { ...form.next(view), begin: () => [] });
    return;
  }
  const goesOn = view.end && !request.signal.aborted && (await findTurnAfterHandoff(context, request));
  if (goesOn) yield* followOther(context, { ...request, turn: goesOn }, form.next(view));
  else if (view.end || isPausedBeyond(view, turn))
    yield { frames: form.finish(view), at: placeIn(view, turn), isLast: true };
}

/** Streams a turn of another run without positions: the client resumes by those of the stream's first run. */
async function* followOther<Frame>(
  context: Context,
  request: FollowedMessage,
  form: LongForm<Frame>,
): AsyncGenerator<Sent<Frame>> {
  const after = request.after === 0 ? 0 : request.turn.head;
  for await (const { at: _, ...sent } of followThrough(context, { ...request, after }, within(form))) yield sent;
}

/** The form for continuing a stream. */
function within<Frame>(form: LongForm<Frame>): LongForm<Frame> {
  return { ...form, begin: form.enter, next: (view) => within(form.next(view)) };
}

/** A form whose streams show one turn: `wait` reports a message that waits or gets none. */
export interface ShortForm<Frame> extends WireForm<Frame> {
  wait: (messageId: string, status: MessageFate) => Frame[];
}

/** `left`: its run was ended from outside; the next message comes after it. */
export type MessageFate = UserMessage['status'] | 'left';

/** Streams the turn that reads the message, that it begins, or that asks something meanwhile, once known. */
export async function* followFate<Frame>(
  context: Context,
  request: FollowedMessage,
  form: ShortForm<Frame>,
): AsyncGenerator<Sent<Frame>> {
  const { messageId, signal } = request;
  yield { frames: form.wait(messageId, 'waiting') };
  const watching = watchMessage(context, request);
  let step = await watching.next();
  for (; !step.done; step = await watching.next()) yield { frames: [] };
  const { turn, fate } = step.value;
  if (signal.aborted) return;
  if (turn) yield* followTurn(context, { ...request, turn, after: 0 }, form);
  else yield { frames: form.wait(messageId, fate), isLast: true };
}

interface Moved {
  fate: MessageFate;
  /** The turn to show; undefined if the message came to nothing. */
  turn: ShownTurn | undefined;
}

/**
 * Waits until a message's fate is known, in the run of another agent after a handoff, too, or the turn asks its client;
 * yields when it is quiet for a while.
 */
export async function* watchMessage(
  context: Context,
  request: Omit<FollowedMessage, 'after'> & { passesPauses?: boolean },
): AsyncGenerator<void, Moved> {
  const { tenantId, turn, messageId, passesPauses = false } = request;
  const view = await foldUntil(context, { tenantId, turn, until: turn.head });
  const waits = () => (messageIn(view, messageId)?.status ?? 'waiting') === 'waiting';
  const isAsked = () => !passesPauses && isPausedBeyond(view, turn);
  if (waits() && !isAsked()) {
    for await (const item of itemsAfter(context, request, view.seq)) {
      changesOf(view, item);
      if (!waits() || isAsked()) break;
      if (item.kind === 'ping') yield;
    }
  }
  const message = messageIn(view, messageId);
  const fate = message?.status ?? 'waiting';
  if (fate === 'begun') return { fate, turn: nextTurn(message, turn) };
  if (fate === 'read') return { fate, turn: { ...turn, head: view.seq } };
  if (fate === 'replaced') return { fate, turn: undefined };
  if (isAsked()) return { fate, turn };
  const goesOn = await findTurnAfterHandoff(context, { tenantId, turn, messageId });
  return goesOn ? yield* watchMessage(context, { ...request, turn: goesOn }) : { fate: 'left', turn: undefined };
}

function messageIn({ messages }: TurnView, messageId: string): UserMessage | undefined {
  return messages.find(({ id }) => id === messageId);
}

function nextTurn(message: UserMessage | undefined, turn: ShownTurn): ShownTurn | undefined {
  if (!message?.next) return undefined;
  // Started in the same commit, by the next event.
  const { turnId, seq } = message.next;
  const start = seq + 1;
  return { ...turn, turnId, start, head: Math.max(turn.head, start), isOpen: true };
}

/** An ended turn is not over while the message waits: more events of that commit follow. */
function isOver(view: TurnView, { turn, messageId }: FollowedMessage): boolean {
  if (view.end) return messageIn(view, messageId)?.status !== 'waiting';
  return isPausedBeyond(view, turn);
}

function itemsAfter(
  context: Context,
  { tenantId, turn, signal }: Pick<FollowedTurn, 'tenantId' | 'turn' | 'signal'>,
  after: number,
): AsyncIterable<StreamItem> {
  const about = { tenantId, runId: turn.runId, after, types: EVENT_TYPES, withAllPieces: true };
  return streamRun(context, { ...about, signal });
}
