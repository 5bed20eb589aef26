/** A part of a transaction that is done as a whole, or not at all. */
import type { Tx } from './database.ts';

/** Where `work` throws, what it has written is undone, and the transaction goes on. */
export async function asOne<T>(tx: Tx, work: () => Promise<T>): Promise<T> {
  await tx.query('savepoint as_one');
  try {
    const done = await work();
    await tx.query('release savepoint as_one');
    return done;
  } catch (error) {
    await tx.query('rollback to savepoint as_one');
    throw error;
  }
}
