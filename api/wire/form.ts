/** A wire form: a protocol that front ends speak, as what its client is sent of a turn. */
import type { Context } from '../../modules/governance/context.ts';
import { EVENT_TYPES } from '../../core/events.ts';
import { lookAhead, streamRun, type StreamItem } from '../../modules/runs/stream-run.ts';
import type { ShownTurn } from '../../modules/sessions/converse.ts';
import { foldDelta, foldEvent } from './fold-turn.ts';
import { beforeTurn, type Change, type TurnView } from './turn-view.ts';

/** Pure functions; whatever a form sends follows from the view and its changes. */
export interface WireForm<Frame> {
  /** The prelude: brings a client that has nothing, or what it had when its stream ended, to the view. */
  begin: (view: TurnView, turn: ShownTurn) => Frame[];
  show: (change: Change, view: TurnView) => Frame[];
  /** Puts what is shown of changes that come together into the order in which a client is to have it. */
  arrange?: (frames: Frame[]) => Frame[];
  /** The turn has ended, or waits for its client. */
  finish: (view: TurnView) => Frame[];
}

/** A form whose streams may show several turns: how one goes on with the turn that a waiting message has begun, or waits for elsewhere. */
export interface LongForm<Frame> extends WireForm<Frame> {
  next: (view: TurnView) => LongForm<Frame>;
  /** The prelude within a stream that shows another turn by then. */
  enter: (view: TurnView) => Frame[];
}

export interface FollowedTurn {
  tenantId: string;
  turn: ShownTurn;
  /** What came up to there is in the prelude; what comes after it is shown. 0: all of the turn is shown. */
  after: number;
  signal: AbortSignal;
}

/** Frames with the place in the log that a client which has them stands at; none when it has been quiet for a while. */
export interface Sent<Frame> {
  frames: Frame[];
  seq?: number;
  isLast?: boolean;
}

/** The frames of a turn, live, to its end or to where it waits for its client after `turn.head`. */
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

/** The frames of a turn from a view of it on: with what follows in the log, and with pieces of answers that are being written. */
export async function* showTurn<Frame>(
  { view, turn, items }: { view: TurnView; turn: ShownTurn; items: AsyncIterable<StreamItem> },
  form: WireForm<Frame>,
): AsyncGenerator<Sent<Frame>> {
  yield { frames: form.begin(view, turn), ...(view.seq > 0 && { seq: view.seq }) };
  const isOver = () => view.end !== null || isPausedBeyond(view, turn);
  if (!isOver()) {
    for await (const item of items) {
      const frames = shownOf(changesOf(view, item), view, form);
      if (frames.length > 0) yield { frames, ...(item.kind === 'logged' && { seq: view.seq }) };
      else if (item.kind === 'ping') yield { frames };
      if (isOver()) break;
    }
  }
  if (isOver()) yield { frames: form.finish(view), seq: view.seq, isLast: true };
}

/** Whether the turn waits for its client, and not just where it did before. */
export function isPausedBeyond(view: TurnView, { head }: Pick<ShownTurn, 'head'>): boolean {
  return view.isPaused && view.seq >= head;
}

/** Frames of changes that come together; the view has all of them by then. */
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

/** The turn as it stood at this place of its run. */
export async function foldUntil(
  context: Context,
  { tenantId, turn, until }: { tenantId: string; turn: ShownTurn; until: number },
): Promise<TurnView> {
  const view = beforeTurn(turn.turnId);
  for (let after = turn.start - 1; after < until;) {
    const page = await lookAhead(context, { tenantId, runId: turn.runId, after, types: EVENT_TYPES });
    const events = page.events.filter(({ seq }) => seq <= until);
    for (const event of events) foldEvent(view, event);
    if (events.length === 0) break;
    after = events.at(-1)?.seq ?? until;
  }
  return view;
}
