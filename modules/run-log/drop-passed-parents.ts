/** Removes jobs of turns that still wait for calls although their run has gone on without them, or has ended. */
import { LIMITS } from '../../core/limits.ts';
import { listRunsAwaitingJobs } from '../../db/maintenance.ts';
import { readPosition, type Position } from '../../jobs/define-job.ts';
import { TURNS } from '../../jobs/turns.ts';
import type { RunLogContext } from './context.ts';

/** Jobs that are removed together. */
const AT_A_TIME = 250;

interface Waiting extends Position {
  id: string;
}

/**
 * A turn that goes on after its calls is their parent in the queue. Where their jobs are lost, the database sends the calls
 * anew, and the turn after them under the position that it has then; the parent would wait for ever. Looks at
 * `LIMITS.sweepRows` of those that wait, at others each time where there are more; runs that have changed within `quietMs`
 * are left for the next time. Answers how many jobs it removed.
 */
export async function dropPassedParents({ db, queues }: RunLogContext, quietMs: number): Promise<number> {
  const queue = queues.queue(TURNS.name);
  const count = await queue.getWaitingChildrenCount();
  if (count === 0) return 0;
  const first = Math.floor(Math.random() * Math.max(1, count - LIMITS.sweepRows + 1));
  const ids = await queue.getRanges(['waiting-children'], first, first + LIMITS.sweepRows - 1, true);
  const waiting = ids.flatMap((id): Waiting[] => {
    const position = readPosition(id);
    return position ? [{ id, ...position }] : [];
  });
  const runIds = [...new Set(waiting.map(({ runId }) => runId))];
  const passed = passedOf(waiting, await listRunsAwaitingJobs(db, { runIds, quietMs }));
  let removed = 0;
  for (let at = 0; at < passed.length; at += AT_A_TIME) {
    // Those of its children that are left go on without it.
    const some = passed.slice(at, at + AT_A_TIME).map((id) => queue.remove(id, { removeChildren: false }));
    removed += (await Promise.all(some)).filter((each) => each === 1).length;
  }
  return removed;
}

/** All jobs of runs that await none, and of the others all but the newest. */
function passedOf(waiting: readonly Waiting[], awaiting: readonly string[]): string[] {
  const newest = new Map(awaiting.map((runId) => [runId, 0]));
  for (const { runId, seq } of waiting) {
    const highest = newest.get(runId);
    if (highest !== undefined) newest.set(runId, Math.max(highest, seq));
  }
  return waiting.filter(({ runId, seq }) => seq !== newest.get(runId)).map(({ id }) => id);
}
