/** A run that its first driver creates (`Birth`). */
import type { RowChanges } from '../core/project.ts';
import { SCHEMA_VERSION } from '../core/upcast.ts';
import type { ClaimedRun, EventRow, RunChange, RunRow } from '../db/run-store.ts';
import type { Birth } from '../jobs/seat.ts';

/** What the driver begins with: the run as a claim would read it, if it were there. */
export function claimOf(create: Record<string, unknown>, { events, governance }: Birth): ClaimedRun {
  const rows = events.map((event, index) => ({
    ...event,
    seq: index + 1,
    schema_version: SCHEMA_VERSION,
    occurred_at: '',
  }));
  const run = { ...create, fence: 1 } as unknown as RunRow;
  return {
    ok: true,
    run,
    checkpoint: null,
    governance,
    events: rows as unknown as EventRow[],
    messages: [],
    outcomes: {},
    from: null,
  };
}

/** What makes a driver's change the one that creates its run; `rows` are those of all its events. */
export function creation(birth: Birth, change: RunChange, rows: RowChanges): Partial<RunChange> {
  const { rests = false, fence, checkpoint } = change;
  const checkpoint_seq = checkpoint?.['seq'];
  const create = { ...rows.create, ...rows.runs.set, last_seq: change.events.length, fence, rests, checkpoint_seq };
  return { create, ...(birth.thread && { thread: birth.thread }), governance: birth.governance };
}
