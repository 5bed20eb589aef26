/**
 * The lock on an agent's memory. Who changes entries that are there holds it alone, and takes it before any row: such changes lead from
 * entry to entry, in no order, so that two at once would wait for each other. It lasts until the transaction ends.
 */
import type { Tx } from './database.ts';

/** For who corrects, disputes, consolidates or forgets. */
export async function lockMemoryOf(tx: Tx, agentId: string): Promise<void> {
  await tx.query(`select pg_advisory_xact_lock(hashtextextended('drover:memory:' || $1, 0))`, [agentId]);
}

/** For who compares what it has written to a space with what others have: of two at once the second sees what the first has written. */
export async function lockComparing(tx: Tx, spaceId: string): Promise<void> {
  await tx.query(`select pg_advisory_xact_lock(hashtextextended('drover:space:' || $1, 0))`, [spaceId]);
}

/** For who stores vectors, in the order of the ids, and for uses that are counted later: beside each other, but not beside a change. */
export async function shareMemoryOf(tx: Tx, agentId: string): Promise<void> {
  await tx.query(`select pg_advisory_xact_lock_shared(hashtextextended('drover:memory:' || $1, 0))`, [agentId]);
}

/** As `shareMemoryOf`, for a statement of its own that waits for nobody: false where a change is under way. */
export const tryToShare = (agentId: string): string =>
  `pg_try_advisory_xact_lock_shared(hashtextextended('drover:memory:' || ${agentId}, 0))`;

/** For who forgets: beside no change, no run is given memories of the agent meanwhile, nor is one still being given what goes. */
export async function lockToForget(tx: Tx, agentId: string): Promise<void> {
  // Sent together, and taken in this order by all.
  await Promise.all([
    lockMemoryOf(tx, agentId),
    tx.query(`select pg_advisory_xact_lock(hashtextextended('drover:memory-given:' || $1, 0))`, [agentId]),
  ]);
}

/** For who gives a run memories, before they are read: what is being forgotten is not given, and no other change is waited for. */
export async function shareGivingOf(tx: Tx, agentId: string): Promise<void> {
  await tx.query(`select pg_advisory_xact_lock_shared(hashtextextended('drover:memory-given:' || $1, 0))`, [agentId]);
}
