/**
 * Group commit: changes that become ready while a transaction is in flight share the next one. Nothing is delayed to wait for
 * others, and each run waits only for its own transaction; a driver that commits alone waits for nobody.
 */
import { claimRun, type ClaimResult, type RunClaim } from '../../db/claim-run.ts';
import {
  changeRuns,
  changeRunsApart,
  commitRun,
  outputBytesOf,
  type CommitResult,
  type RunChange,
  type Waiting,
} from '../../db/commit-run.ts';
import { isDatabaseAway, type Database } from '../../db/database.ts';
import { LINE_MS } from '../../db/statement-line.ts';

export type CommitChange = (change: RunChange) => Promise<CommitResult>;
type ClaimRun = (claim: RunClaim) => Promise<ClaimResult>;

/** Commits and claims of drivers and tool workers. */
export interface GroupCommit {
  commit: CommitChange;
  claim: ClaimRun;
}

/** Maximum number of changes in a transaction: larger ones lock rows for longer than they save. */
const MOST_TOGETHER = 32;

/** Maximum bytes of outputs in a transaction of several changes. */
const MOST_BYTES = 16 * 1024 * 1024;

/** A batch unanswered for this long gives up its lane: others then use another connection. */
const LATE_MS = 2 * LINE_MS;

/** Numbers of concurrent batches. */
export interface Lanes {
  /** Maximum number of batches in flight. */
  lanes: number;
  /** Maximum number of late batches in addition, each of which may occupy a connection of the pool; default 0. */
  mostLate?: number;
}

/**
 * Two changes of one driver are never queued together, since it waits for the first. Changes of tool workers to one run may
 * be, as they expect no position.
 */
export function createGroupCommit(db: Database, { lanes, mostLate = 0 }: Lanes): GroupCommit {
  let waiting: Waiting[] = [];
  let free = lanes;
  let underWay = 0;
  let late = 0;

  function pump(): void {
    while (free > 0 && waiting.length > 0) {
      // Each lane gets only its share: if all drivers waited for one batch, this process and the server would work alternately
      // (20 runs at a time: 139 runs/s in one batch, 155 in two).
      const share = Math.min(MOST_TOGETHER, Math.ceil((waiting.length + underWay) / lanes));
      const together = withinBytes(waiting.slice(0, share));
      send(together);
      waiting = waiting.slice(together.length);
    }
  }
  function send(batch: readonly Waiting[]): void {
    free--;
    underWay += batch.length;
    const leave = () => {
      free++;
      underWay -= batch.length;
      pump();
    };
    let isLate = false;
    const timer = setTimeout(() => {
      if (late >= mostLate) return void timer.refresh();
      isLate = true;
      late++;
      leave();
    }, LATE_MS);
    void sendBatch(db, batch).finally(() => {
      clearTimeout(timer);
      if (isLate) late--;
      else leave();
    });
  }
  const enqueue = (item: Waiting) => {
    waiting.push(item);
    // Includes changes that become ready in this tick of the event loop.
    setImmediate(pump);
  };

  return {
    commit: (of) => new Promise((resolve, reject) => enqueue({ kind: 'commit', of, resolve, reject })),
    claim: (of) => new Promise((resolve, reject) => enqueue({ kind: 'claim', of, resolve, reject })),
  };
}

/** The first item, and as many more as keep the stored outputs small enough for one statement. */
function withinBytes(items: readonly Waiting[]): Waiting[] {
  let bytes = 0;
  return items.filter((item, index) => {
    if (item.kind === 'commit') bytes += outputBytesOf(item.of);
    return index === 0 || bytes <= MOST_BYTES;
  });
}

async function sendBatch(db: Database, batch: readonly Waiting[]): Promise<void> {
  const [only] = batch;
  if (only && batch.length === 1) return sendOne(db, only);
  // Grouped by tenant, in order of runs, so that two processes never deadlock.
  const sorted = batch.toSorted((a, b) => compare(a.of.tenant_id, b.of.tenant_id) || compare(a.of.run_id, b.of.run_id));
  try {
    await changeRuns(db, sorted);
  } catch (error) {
    if (isDatabaseAway(error)) rejectAll(sorted, error);
    else await sendApart(db, sorted);
  }
}

/** A failing change has rolled back the whole batch: committed separately, it only fails itself. */
async function sendApart(db: Database, batch: readonly Waiting[]): Promise<void> {
  try {
    await changeRunsApart(db, batch);
  } catch (error) {
    if (isDatabaseAway(error)) rejectAll(batch, error);
    // The statement itself was aborted, for example by a timeout, because of a wait for one of them.
    else for (const item of batch) await sendOne(db, item);
  }
}

/** After a lost connection nobody knows what was committed: each driver must load its run again. */
function rejectAll(batch: readonly Waiting[], error: unknown): void {
  for (const item of batch) item.reject(error);
}

async function sendOne(db: Database, item: Waiting): Promise<void> {
  if (item.kind === 'claim') await claimRun(db, item.of).then(item.resolve, item.reject);
  else await commitRun(db, item.of, { inLine: true }).then(item.resolve, item.reject);
}

function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
