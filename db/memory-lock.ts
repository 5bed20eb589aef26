/**
 * The lock on an agent's memory. Who changes entries that are there holds it alone, and takes it before any row: such changes lead from
 * entry to entry, in no order, so that two at once would wait for each other. It lasts until the transaction ends.
 */
import type { Tx } from './database.ts';

/** For who corrects, disputes, consolidates or forgets. */
export async function lockMemoryOf(tx: Tx, agentId: string): Promise<void> {
  await tx.query(`select pg_advisory_xact_lock(hashtextextended('drover:memory:' || $1, 0))`, [agentId]);
}

/** For who counts uses or stores vectors, in the order of the ids: beside each other, but not beside a change. */
export async function shareMemoryOf(tx: Tx, agentId: string): Promise<void> {
  await tx.query(`select pg_advisory_xact_lock_shared(hashtextextended('drover:memory:' || $1, 0))`, [agentId]);
}
