/**
 * Group commit without a timer: what becomes ready while a commit is in flight goes along in the next one. Each run
 * still waits for its own commit; a driver that is alone pays nothing for it.
 */
import { commitRun, commitRuns, type CommitResult, type RunChange } from '../db/run-store.ts';
import { isDatabaseAway, type Database } from '../db/database.ts';

export type CommitChange = (change: RunChange) => Promise<CommitResult>;

interface Waiting {
  change: RunChange;
  resolve: (result: CommitResult) => void;
  reject: (error: unknown) => void;
}

/** Most changes of one transaction: a large one keeps its rows locked for longer than it saves. */
const MOST_TOGETHER = 32;

/**
 * Two changes of one driver never meet here, since it waits for the first; what tool workers append to one run may, and
 * expects no position.
 */
export function createGroupCommit(db: Database, options: { lanes: number }): CommitChange {
  let waiting: Waiting[] = [];
  let inFlight = 0;

  const pump = () => {
    if (inFlight >= options.lanes || waiting.length === 0) return;
    const batch = waiting.slice(0, MOST_TOGETHER);
    waiting = waiting.slice(MOST_TOGETHER);
    inFlight++;
    void sendBatch(db, batch).finally(() => {
      inFlight--;
      pump();
    });
  };

  return (change) =>
    new Promise((resolve, reject) => {
      waiting.push({ change, resolve, reject });
      // What becomes ready in this tick goes along.
      setImmediate(pump);
    });
}

async function sendBatch(db: Database, batch: readonly Waiting[]): Promise<void> {
  const [only] = batch;
  if (only && batch.length === 1) return settle(only, commitRun(db, only.change));
  try {
    // In the order of the runs, so that two processes never wait for each other's rows.
    const sorted = batch.toSorted((a, b) => compare(a.change.run, b.change.run));
    const results = await commitRuns(
      db,
      sorted.map((item) => item.change),
    );
    sorted.forEach((item, index) => {
      const result = results[index];
      if (result) item.resolve(result);
      else item.reject(new Error('commit_runs answered too few results'));
    });
  } catch (error) {
    // After a lost connection nobody knows what was committed: each driver must load its run again.
    if (isDatabaseAway(error)) for (const item of batch) item.reject(error);
    // A change that cannot be made has undone the others with it: one by one, it hurts only itself.
    else for (const item of batch) await settle(item, commitRun(db, item.change));
  }
}

function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

async function settle(item: Waiting, result: Promise<CommitResult>): Promise<void> {
  await result.then(item.resolve, item.reject);
}
