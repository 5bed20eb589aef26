/** Wire forms: how a front end's protocol shows a turn. */
import type { Context } from '../../modules/governance/context.ts';
import { EVENT_TYPES } from '../../core/events.ts';
import type { SessionPosition } from '../../core/session-position.ts';
import { lookAhead, streamRun, type StreamItem } from '../../modules/runs/stream-run.ts';
import type { ShownTurn } from '../../modules/sessions/converse.ts';
import { foldDelta, foldEvent } from './fold-turn.ts';
import { beforeTurn, type Change, type TurnView } from './turn-view.ts';

/** Pure functions: all frames derive from the view and its changes. */
export interface WireForm<Frame> {
  /** The prelude: brings a client with nothing, or with its state at the end of its last stream, up to the view. */
  begin: (view: TurnView, turn: ShownTurn) => Frame[];
  show: (change: Change, view: TurnView) => Frame[];
  /** Sorts the frames of simultaneous changes for the client. */
  arrange?: (frames: Frame[]) => Frame[];
  /** For a turn that has ended or waits for its client. */
  finish: (view: TurnView) => Frame[];
}

/**
 * A form whose streams can show several turns. `next`: the form for the turn that a waiting message began, or waits for
 * elsewhere.
 */
export interface LongForm<Frame> extends WireForm<Frame> {
  next: (view: TurnView) => LongForm<Frame>;
  /** The prelude of a later turn in the stream. */
  enter: (view: TurnView) => Frame[];
}

export interface FollowedTurn {
  tenantId: string;
  turn: ShownTurn;
  /** The prelude covers what came up to here. 0: the whole turn is shown as changes. */
  after: number;
  signal: AbortSignal;
}

/** Frames, and the client's position on the thread after them; no frames after a quiet while. */
export interface Sent<Frame> {
  frames: Frame[];
  at?: SessionPosition;
  isLast?: boolean;
}

/** Streams a turn until it ends, or waits for its client after `turn.head`. */
export async function* followTurn<Frame>(
  context: Context,
  request: FollowedTurn,
  form: WireForm<Frame>,
): AsyncGenerator<Sent<Frame>> {
  const { tenantId, turn, signal } = request;
  const after = Math.max(request.after, turn.start);
  const view = await foldUntil(context, { tenantId, turn, until: after });
  const about = { tenantId, runId: turn.runId, after, types: EVENT_TYPES, withAllPieces: true, signal };
  yield* showTurn({ view, turn, items: streamRun(context, about) }, form);
}

/** Streams a turn on from a view of it, with later log events and pieces of answers being written. */
export async function* showTurn<Frame>(
  { view, turn, items }: { view: TurnView; turn: ShownTurn; items: AsyncIterable<StreamItem> },
  form: WireForm<Frame>,
): AsyncGenerator<Sent<Frame>> {
  yield { frames: form.begin(view, turn), ...(view.seq > 0 && { at: placeIn(view, turn) }) };
  const isOver = () => view.end !== null || isPausedBeyond(view, turn);
  if (!isOver()) {
    for await (const item of items) {
      const frames = shownOf(changesOf(view, item), view, form);
      if (frames.length > 0) yield { frames, ...(item.kind === 'logged' && { at: placeIn(view, turn) }) };
      else if (item.kind === 'ping') yield { frames };
      if (isOver()) break;
    }
  }
  if (isOver()) yield { frames: form.finish(view), at: placeIn(view, turn), isLast: true };
}

/** The position on the thread of what a view of the turn has. */
export function placeIn({ seq }: TurnView, { place }: Pick<ShownTurn, 'place'>): SessionPosition {
  return { place, seq };
}

/** Whether the turn waits for its client again, at `head` or later. */
export function isPausedBeyond(view: TurnView, { head }: Pick<ShownTurn, 'head'>): boolean {
  return view.isPaused && view.seq >= head;
}

/** Frames of simultaneous changes, which the view already contains. */
export function shownOf<Frame>(
  changes: readonly Change[],
  view: TurnView,
  { show, arrange }: Pick<WireForm<Frame>, 'show' | 'arrange'>,
): Frame[] {
  const frames = changes.flatMap((change) => show(change, view));
  return arrange ? arrange(frames) : frames;
}

export function changesOf(view: TurnView, item: StreamItem): Change[] {
  if (item.kind === 'logged') return foldEvent(view, item.event);
  return item.kind === 'delta' || item.kind === 'call_piece' ? foldDelta(view, item) : [];
}

interface FoldedTurn {
  tenantId: string;
  turn: ShownTurn;
  until: number;
  /** What comes after the turn is not read: a run may have many turns after it. */
  stopsAtEnd?: boolean;
}

/** The turn's view at this position of its run. */
export async function foldUntil(
  context: Context,
  { tenantId, turn, until, stopsAtEnd = false }: FoldedTurn,
): Promise<TurnView> {
  const view = beforeTurn(turn.turnId);
  for (let after = turn.start - 1; after < until;) {
    const page = await lookAhead(context, { tenantId, runId: turn.runId, after, types: EVENT_TYPES });
    const events = page.events.filter(({ seq }) => seq <= until);
    for (const event of events) foldEvent(view, event);
    if (events.length === 0 || (stopsAtEnd && view.end)) break;
    after = events.at(-1)?.seq ?? until;
  }
  return view;
}
