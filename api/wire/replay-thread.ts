/** Replays a thread's past as frames of a wire form, reading the log page by page. */
import { EVENT_TYPES } from '../../core/events.ts';
import type { SessionPosition } from '../../core/session-position.ts';
import type { Context } from '../../modules/governance/context.ts';
import type { LoggedEvent } from '../../modules/runs/read-runs.ts';
import { lookAhead } from '../../modules/runs/stream-run.ts';
import { findRunFrom, type RunFrom } from '../../modules/sessions/client-thread.ts';
import { foldEvent } from './fold-turn.ts';
import type { WireForm } from './form.ts';
import { beforeTurn, type TurnView } from './turn-view.ts';

interface ReplayedThread {
  tenantId: string;
  threadId: string;
  /** Starts after this position. */
  after: SessionPosition;
}

/** An event's frames, if any, and its position on the thread. */
interface Replayed<Frame> {
  frames: Frame[];
  at: SessionPosition;
}

export async function* replayThread<Frame>(
  context: Context,
  { tenantId, threadId, after }: ReplayedThread,
  form: Pick<WireForm<Frame>, 'show'>,
): AsyncGenerator<Replayed<Frame>> {
  let at = after;
  for (;;) {
    const run = await findRunFrom(context, { tenantId, threadId, ...at });
    if (!run) return;
    const { place } = run;
    yield* replayRun(context, { tenantId, run, after: place === at.place ? at.seq : 0 }, form);
    at = { place: place + 1, seq: 0 };
  }
}

async function* replayRun<Frame>(
  context: Context,
  { tenantId, run, after }: { tenantId: string; run: RunFrom; after: number },
  form: Pick<WireForm<Frame>, 'show'>,
): AsyncGenerator<Replayed<Frame>> {
  const { id: runId, place, head } = run;
  let view = beforeTurn('');
  for (let read = Math.max(0, run.turnStart - 1); read < head;) {
    const { events } = await lookAhead(context, { tenantId, runId, after: read, types: EVENT_TYPES });
    for (const event of events) {
      if (event.type === 'turn.started') view = beforeTurn(event.turn_id ?? '');
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
