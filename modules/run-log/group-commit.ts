/**
 * Group commit: what becomes ready while a transaction is in flight goes along in the next one. Nothing is held back for
 * company, and each run waits for its own transaction alone; a driver that commits alone waits for nobody.
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

/** The way of drivers and tool workers to the runs. */
export interface GroupCommit {
  commit: CommitChange;
  claim: ClaimRun;
}

/** Most changes of one transaction: a large one keeps its rows locked for longer than it saves. */
const MOST_TOGETHER = 32;

/** Most bytes of outputs in one transaction of several changes. */
const MOST_BYTES = 16 * 1024 * 1024;

/** After so long a batch that has no answer gives its lane to others: they go by another connection then. */
const LATE_MS = 2 * LINE_MS;

/** How many batches go at a time. */
export interface Lanes {
  /** Most batches in flight. */
  lanes: number;
  /** Most late ones beside them, each of which may keep a connection of the pool; 0 where absent. */
  mostLate?: number;
}

/**
 * Two changes of one driver never meet here, since it waits for the first; what tool workers append to one run may, and
 * expects no position.
 */
export function createGroupCommit(db: Database, { lanes, mostLate = 0 }: Lanes): GroupCommit {
  let waiting: Waiting[] = [];
  let free = lanes;
  let underWay = 0;
  let late = 0;

  function pump(): void {
    while (free > 0 && waiting.length > 0) {
      // No more than its share for any lane: drivers that all wait for one batch would leave this process and the server
      // to work by turns (20 runs at a time: 139 runs/s in one batch, 155 in two).
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
    // Changes that become ready in this tick of the event loop go along.
    setImmediate(pump);
  };

  return {
    commit: (of) => new Promise((resolve, reject) => enqueue({ kind: 'commit', of, resolve, reject })),
    claim: (of) => new Promise((resolve, reject) => enqueue({ kind: 'claim', of, resolve, reject })),
  };
}

/** The first of them, with so many of the next that what they store stays small enough for one statement. */
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
  // Those of a tenant together, in the order of the runs, so that two processes never wait for each other's rows.
  const sorted = batch.toSorted((a, b) => compare(a.of.tenant_id, b.of.tenant_id) || compare(a.of.run_id, b.of.run_id));
  try {
    await changeRuns(db, sorted);
  } catch (error) {
    if (isDatabaseAway(error)) rejectAll(sorted, error);
    else await sendApart(db, sorted);
  }
}

/** A change that cannot be made has undone the others with it: apart from them it hurts only itself. */
async function sendApart(db: Database, batch: readonly Waiting[]): Promise<void> {
  try {
    await changeRunsApart(db, batch);
  } catch (error) {
    if (isDatabaseAway(error)) rejectAll(batch, error);
    // The statement itself was ended, as for its time: what it waited for concerns one of them.
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
