/** Replays a thread's conversation as frames of a wire form, reading the log page by page. */
import type { Caller } from '../../core/caller.ts';
import { EVENT_TYPES } from '../../core/events.ts';
import type { SessionPosition } from '../../core/session-position.ts';
import type { Context } from '../../modules/governance/context.ts';
import type { LoggedEvent } from '../../modules/runs/read-runs.ts';
import { lookAhead } from '../../modules/runs/stream-run.ts';
import {
  findRunFrom,
  readPartsOfOthers,
  type PartOfOther,
  type RunFrom,
} from '../../modules/sessions/client-thread.ts';
import { foldEvent } from './fold-turn.ts';
import type { WireForm } from './form.ts';
import { beforeTurn, type TurnView } from './turn-view.ts';

interface ReplayedThread {
  caller: Caller;
  threadId: string;
  /** Starts after this position. */
  after: SessionPosition;
}

/** An event's frames, if any, and its position on the thread; none on others, where a client that is cut off has to begin anew. */
interface Replayed<Frame> {
  frames: Frame[];
  at?: SessionPosition;
}

export async function* replayThread<Frame>(
  context: Context,
  { caller, threadId, after }: ReplayedThread,
  form: Pick<WireForm<Frame>, 'show'>,
): AsyncGenerator<Replayed<Frame>> {
  const { tenantId } = caller;
  if (after.place === 0) {
    const parts = await readPartsOfOthers(context, { caller, threadId });
    for (const part of parts) yield* replayPart(context, { tenantId, part }, form);
  }
  let at = after;
  for (;;) {
    const run = await findRunFrom(context, { tenantId, threadId, ...at });
    if (!run) return;
    const { place } = run;
    yield* replayRun(context, { tenantId, run, after: place === at.place ? at.seq : 0 }, form);
    at = { place: place + 1, seq: 0 };
  }
}

/** What a fork shows of another thread. */
async function* replayPart<Frame>(
  context: Context,
  { tenantId, part }: { tenantId: string; part: PartOfOther },
  form: Pick<WireForm<Frame>, 'show'>,
): AsyncGenerator<Replayed<Frame>> {
  for (let place = 1; place <= part.place;) {
    const run = await findRunFrom(context, { tenantId, threadId: part.thread_id, place, seq: 0 });
    if (!run || run.place > part.place) return;
    const beyond = run.place === part.place ? part.beyond : null;
    for await (const { frames } of replayRun(context, { tenantId, run, after: 0, beyond }, form)) yield { frames };
    place = run.place + 1;
  }
}

interface ReplayedRun {
  tenantId: string;
  run: RunFrom;
  after: number;
  /** The turn at which it ends. */
  beyond?: string | null;
}

async function* replayRun<Frame>(
  context: Context,
  { tenantId, run, after, beyond = null }: ReplayedRun,
  form: Pick<WireForm<Frame>, 'show'>,
): AsyncGenerator<Replayed<Frame>> {
  const { id: runId, place, head } = run;
  let view = beforeTurn('');
  for (let read = Math.max(0, run.turnStart - 1); read < head;) {
    const { events } = await lookAhead(context, { tenantId, runId, after: read, types: EVENT_TYPES });
    for (const event of events) {
      const begins = event.type === 'turn.started';
      if (begins && beyond !== null && event.turn_id === beyond) return;
      if (begins) view = beforeTurn(event.turn_id ?? '');
      const frames = framesOf(view, event, form);
      if (event.seq > after) yield { frames, at: { place, seq: event.seq } };
    }
    read = events.at(-1)?.seq ?? head;
  }
}

/** Frames of an event. Events after the end of a turn are skipped, as live streams never show them. */
export function framesOf<Frame>(view: TurnView, event: LoggedEvent, form: Pick<WireForm<Frame>, 'show'>): Frame[] {
  if (view.end) return [];
  return foldEvent(view, event).flatMap((change) => form.show(change, view));
}
