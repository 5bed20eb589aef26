/** Waits for commits that were under way when a rule changed: calls that they begin were judged by the old rule. */
import { setTimeout as sleep } from 'node:timers/promises';
import { unavailable } from '../../core/errors.ts';
import type { Database, Tx } from '../../db/database.ts';
import { isAnyUnderWay, listWriters } from '../../db/governance.ts';

/** Longer than any of our transactions may take (db/postgres.ts), unless the server is frozen. */
const PATIENCE_MS = 40_000;
const FIRST_LOOK_MS = 2;
const LONGEST_PAUSE_MS = 100;

/**
 * Changes policies or tools in a transaction of the tenant that advances the policy epoch. No call begins under the old
 * rule after it resolves. Throws what `write` throws, and 503 as `untilEarlierCommitsEnd`.
 */
export async function changeRules<T>(db: Database, tenantId: string, write: (tx: Tx) => Promise<T>): Promise<T> {
  const written = await db.withTenant(tenantId, write);
  await untilEarlierCommitsEnd(db);
  return written;
}

/**
 * Waits, after a committed change, for commits that may have seen the tenant's state before it: their calls have begun
 * by then. Throws 503 if they have not ended after `patienceMs`: the change holds.
 */
export async function untilEarlierCommitsEnd(db: Database, patienceMs = PATIENCE_MS): Promise<void> {
  const endsAtMs = performance.now() + patienceMs;
  const writers = await listWriters(db);
  if (writers.length === 0) return;
  for (
    let pauseMs = FIRST_LOOK_MS;
    await isAnyUnderWay(db, writers);
    pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)
  ) {
    if (performance.now() > endsAtMs) {
      throw unavailable(
        'The change holds, but commits that began before it have not ended. Ask again to wait for them.',
      );
    }
    await sleep(pauseMs);
  }
}
