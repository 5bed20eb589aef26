/** Reads earlier turns of a thread from their logs. */
import { EVENT_TYPES } from '../../core/events.ts';
import type { Context } from '../../modules/governance/context.ts';
import type { PastTurn } from '../../modules/conversations/shown-turns.ts';
import type { LoggedEvent } from '../../modules/runs/read-runs.ts';
import { lookAhead } from '../../modules/runs/stream-run.ts';

/** A partly read turn. */
interface Reader {
  take: (event: LoggedEvent) => void;
}

/** Reads turns in their order, newest first, each with a reader of its own; stops reading where its caller does. */
export async function* readTurns<R extends Reader>(
  context: Context,
  { tenantId, turns }: { tenantId: string; turns: readonly PastTurn[] },
  open: (turn: PastTurn) => R,
): AsyncGenerator<[PastTurn, R]> {
  for (const stretch of stretchesOf(turns)) {
    const readers = new Map(stretch.map((turn) => [turn, open(turn)]));
    await readStretch(context, { tenantId, turns: stretch }, readers);
    yield* readers;
  }
}

/** Groups neighbouring turns of a run to read together, newest first; beyond one read's events, that gains nothing. */
function stretchesOf(turns: readonly PastTurn[]): PastTurn[][] {
  const stretches: PastTurn[][] = [];
  for (const turn of turns) {
    const newest = stretches.at(-1)?.[0];
    const isNear = newest?.runId === turn.runId && newest.beyond - turn.start <= EVENTS_TOGETHER;
    if (isNear) stretches.at(-1)?.push(turn);
    else stretches.push([turn]);
  }
  return stretches;
}

const EVENTS_TOGETHER = 500;

/** Reads neighbouring turns of a run. */
async function readStretch(
  context: Context,
  { tenantId, turns }: { tenantId: string; turns: readonly PastTurn[] },
  readers: ReadonlyMap<PastTurn, Reader>,
): Promise<void> {
  const [newest, oldest] = [turns[0], turns.at(-1)];
  if (!newest || !oldest) return;
  const { runId, beyond } = newest;
  for (let after = oldest.start - 1; after < beyond - 1;) {
    const { events } = await lookAhead(context, { tenantId, runId, after, types: EVENT_TYPES });
    for (const event of events) {
      const turn = turns.find(({ start, beyond: end }) => event.seq >= start && event.seq < end);
      if (turn) readers.get(turn)?.take(event);
    }
    after = events.at(-1)?.seq ?? beyond;
  }
}
