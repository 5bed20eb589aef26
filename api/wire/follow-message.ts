/** What whoever has said something while a turn is at work is shown. */
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
  shownOf,
  showTurn,
  type FollowedTurn,
  type LongForm,
  type Sent,
  type WireForm,
} from './form.ts';
import { beforeTurn, type TurnView, type UserMessage } from './turn-view.ts';

interface FollowedMessage extends FollowedTurn {
  /** The message that waits for the turn. */
  messageId: string;
}

/**
 * The turn at work, and in the same stream the one that the message begins; where the conversation is handed over in between, the
 * other agent's turn, in whose end the message waits then, and so on. Ends where a turn at work waits for its client.
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
  yield { frames: form.begin(view, turn), seq: view.seq };
  if (!isOver(view, request)) {
    for await (const item of itemsAfter(context, request, after)) {
      const frames = shownOf(changesOf(view, item), view, form);
      if (frames.length > 0) yield { frames, ...(item.kind === 'logged' && { seq: view.seq }) };
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
  else if (view.end || isPausedBeyond(view, turn)) yield { frames: form.finish(view), seq: view.seq, isLast: true };
}

/** In another run: a place in its log is none in that of the stream's first turn, after which a client that was cut off goes on. */
async function* followOther<Frame>(
  context: Context,
  request: FollowedMessage,
  form: LongForm<Frame>,
): AsyncGenerator<Sent<Frame>> {
  const after = request.after === 0 ? 0 : request.turn.head;
  for await (const { seq: _, ...sent } of followThrough(context, { ...request, after }, within(form))) yield sent;
}

/** The form in a stream that has begun. */
function within<Frame>(form: LongForm<Frame>): LongForm<Frame> {
  return { ...form, begin: form.enter, next: (view) => within(form.next(view)) };
}

/** A form whose streams show one turn: what it tells of a message that waits, or that comes to nothing. */
export interface ShortForm<Frame> extends WireForm<Frame> {
  wait: (messageId: string, status: MessageFate) => Frame[];
}

/** `left`: its run was ended from outside; the next message comes after it. */
export type MessageFate = UserMessage['status'] | 'left';

/** The turn that reads the message, which the message begins, or which asks something meanwhile, once that is known. */
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
  /** The turn that shows what has become of it; none where it comes to nothing. */
  turn: ShownTurn | undefined;
}

/** Looks on until something has become of a message, in the run of whoever the conversation is handed to, too, or the turn asks its client; yields when it was quiet for a while. */
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
  // The same commit starts it.
  const { turnId, seq } = message.next;
  const start = seq + 1;
  return { ...turn, turnId, start, head: Math.max(turn.head, start), isOpen: true };
}

/** A turn that has ended is not over for whom its message waits: the commit that ends it tells more. */
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
