/** The commits that were under way when a rule changed: a call that they begin was judged by the rule of before. */
import { setTimeout as sleep } from 'node:timers/promises';
import { unavailable } from '../../core/errors.ts';
import type { Database, Tx } from '../../db/database.ts';
import { isAnyUnderWay, listWriters } from '../../db/governance.ts';

/** Longer than any transaction of ours may take (db/postgres.ts): only one of a frozen server lasts longer. */
const PATIENCE_MS = 40_000;
const FIRST_LOOK_MS = 2;
const LONGEST_PAUSE_MS = 100;

/**
 * Makes a change of policies or tools in a transaction of the tenant, one that advances the policy epoch. No call begins by
 * the rule of before once this has come back. Throws what `write` throws, and 503 as `untilEarlierCommitsEnd`.
 */
export async function changeRules<T>(db: Database, tenantId: string, write: (tx: Tx) => Promise<T>): Promise<T> {
  const written = await db.withTenant(tenantId, write);
  await untilEarlierCommitsEnd(db);
  return written;
}

/**
 * Waits, after a change was committed, for the commits that may have seen the tenant as it was before: calls that they
 * begin are begun then. Throws 503 where they have not ended after `patienceMs`: the change holds.
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
