/** Runs part of a transaction atomically. */
import type { Tx } from './database.ts';

/** If `work` throws, undoes what it wrote and rethrows; the transaction can continue. */
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
