/** Removes queued jobs that wait for others, although their run has gone on without those, or has ended. */
import { LIMITS } from '../../core/limits.ts';
import { listRunsAwaitingJobs } from '../../db/maintenance.ts';
import { listAwaitedChildren } from '../../db/task-upkeep.ts';
import type { QueueName } from '../../jobs/contracts.ts';
import { readPosition, type Position } from '../../jobs/define-job.ts';
import { readNextLook, SUBTASKS } from '../../jobs/subtasks.ts';
import { TURNS } from '../../jobs/turns.ts';
import type { RunLogContext } from './run-log-context.ts';

/** Jobs removed at a time. */
const AT_A_TIME = 250;

interface Waiting extends Position {
  id: string;
}

/**
 * In the queue, a turn's continuation is the parent of its calls' jobs, and a look at a workflow that of the children it
 * began. If those jobs are lost, the database sends calls and children again and continues under another position or look, and
 * the parent would wait for ever. A look is removed at the latest when none of its children is at work. Examines up to
 * `LIMITS.sweepRows` waiting jobs of each kind, a random section if there are more, and skips runs changed within `quietMs`.
 * Returns how many jobs were removed.
 */
export async function dropPassedParents(context: RunLogContext, quietMs: number): Promise<number> {
  const turns = await dropPassed(context, TURNS.name, async (ids) => {
    const waiting = ids.flatMap((id): Waiting[] => {
      const position = readPosition(id);
      return position ? [{ id, ...position }] : [];
    });
    const runIds = [...new Set(waiting.map(({ runId }) => runId))];
    return passedOf(waiting, await listRunsAwaitingJobs(context.db, { runIds, quietMs }));
  });
  const looks = await dropPassed(context, SUBTASKS.name, async (ids) => {
    const waiting = ids.flatMap((id) => {
      const childId = readNextLook(id);
      return childId === undefined ? [] : [{ id, childId }];
    });
    const childIds = waiting.map(({ childId }) => childId);
    const awaited = new Set(await listAwaitedChildren(context.db, { childIds, quietMs }));
    const over = waiting.filter(({ childId }) => !awaited.has(childId)).map(({ id }) => id);
    const open = waiting.filter(({ childId }) => awaited.has(childId)).map(({ id }) => id);
    return [...over, ...(await withoutLiveJobs(context, open))];
  });
  return turns + looks;
}

/** Removes those waiting jobs of a queue that `passed` returns; returns how many. */
async function dropPassed(
  { queues }: RunLogContext,
  name: QueueName,
  passed: (ids: readonly string[]) => Promise<readonly string[]>,
): Promise<number> {
  const queue = queues.queue(name);
  const count = await queue.getWaitingChildrenCount();
  if (count === 0) return 0;
  const first = Math.floor(Math.random() * Math.max(1, count - LIMITS.sweepRows + 1));
  const dropped = await passed(await queue.getRanges(['waiting-children'], first, first + LIMITS.sweepRows - 1, true));
  let removed = 0;
  for (let at = 0; at < dropped.length; at += AT_A_TIME) {
    // Remaining children continue without it.
    const some = dropped.slice(at, at + AT_A_TIME).map((id) => queue.remove(id, { removeChildren: false }));
    removed += (await Promise.all(some)).filter((each) => each === 1).length;
  }
  return removed;
}

const ENDED = ['completed', 'failed', 'unknown'];

/** Looks whose jobs have all ended or are gone, so that none will finish and release them. */
async function withoutLiveJobs({ queues }: RunLogContext, looks: readonly string[]): Promise<string[]> {
  const queue = queues.queue(SUBTASKS.name);
  const prefix = `${queue.qualifiedName}:`;
  const hasLive = async (look: string): Promise<boolean> => {
    const job = await queue.getJob(look);
    if (!job) return false;
    let cursor = 0;
    do {
      const page = await job.getDependencies({ unprocessed: { count: AT_A_TIME, cursor } });
      const ids = (page.unprocessed ?? []).map((key) => key.slice(prefix.length));
      if ((await queues.states(SUBTASKS.name, ids)).some((state) => !ENDED.includes(state))) return true;
      cursor = page.nextUnprocessedCursor ?? 0;
    } while (cursor !== 0);
    return false;
  };
  const lost: string[] = [];
  for (let at = 0; at < looks.length; at += AT_A_TIME) {
    const some = looks.slice(at, at + AT_A_TIME);
    const live = await Promise.all(some.map(hasLive));
    lost.push(...some.filter((_, index) => !live[index]));
  }
  return lost;
}

/** All jobs of runs that await none; for other runs, all but the newest. */
function passedOf(waiting: readonly Waiting[], awaiting: readonly string[]): string[] {
  const newest = new Map(awaiting.map((runId) => [runId, 0]));
  for (const { runId, seq } of waiting) {
    const highest = newest.get(runId);
    if (highest !== undefined) newest.set(runId, Math.max(highest, seq));
  }
  return waiting.filter(({ runId, seq }) => seq !== newest.get(runId)).map(({ id }) => id);
}
