/**
 * Locks on an agent's memory. Changes of existing entries take one exclusively, before locking any row: they lead from entry
 * to entry in no fixed order, and would otherwise deadlock. Locks last until the transaction ends.
 */
import type { Tx } from './database.ts';

/** For corrections, disputes, consolidations, forgetting and calls of `remember`. */
export async function lockMemoryOf(tx: Tx, agentId: string): Promise<void> {
  await tx.query(`select pg_advisory_xact_lock(hashtextextended('drover:memory:' || $1, 0))`, [agentId]);
}

/** For comparing what was written to a space with others' entries: of two at once, the second sees what the first wrote. */
export async function lockComparing(tx: Tx, spaceId: string): Promise<void> {
  await tx.query(`select pg_advisory_xact_lock(hashtextextended('drover:space:' || $1, 0))`, [spaceId]);
}

/** For storing vectors, in order of ids, and for late counts of uses: compatible with each other, but not with changes. */
export async function shareMemoryOf(tx: Tx, agentId: string): Promise<void> {
  await tx.query(`select pg_advisory_xact_lock_shared(hashtextextended('drover:memory:' || $1, 0))`, [agentId]);
}

/** Like `shareMemoryOf`, as a separate statement that never waits: false while a change is in progress. */
export const tryToShare = (agentId: string): string =>
  `pg_try_advisory_xact_lock_shared(hashtextextended('drover:memory:' || ${agentId}, 0))`;

/** For forgetting: excludes other changes, and giving the agent's memories to runs. */
export async function lockToForget(tx: Tx, agentId: string): Promise<void> {
  // Sent together, and taken in this order by everybody.
  await Promise.all([
    lockMemoryOf(tx, agentId),
    tx.query(`select pg_advisory_xact_lock(hashtextextended('drover:memory-given:' || $1, 0))`, [agentId]),
  ]);
}

/** For giving memories to a run, taken before they are read: waits for forgetting, but for no other change. */
export async function shareGivingOf(tx: Tx, agentId: string): Promise<void> {
  await tx.query(`select pg_advisory_xact_lock_shared(hashtextextended('drover:memory-given:' || $1, 0))`, [agentId]);
}
