/** Finds out what a transaction would come to. */
import type { Database, Tx } from './database.ts';

const UNDO = new Error('A rehearsal is undone.');

/** Does `work` in a transaction that is then undone. Throws what `work` throws. */
export async function rehearse(
  db: Pick<Database, 'withTenant'>,
  tenantId: string,
  work: (tx: Tx) => Promise<unknown>,
): Promise<void> {
  const undone = db.withTenant(tenantId, async (tx) => {
    await work(tx);
    throw UNDO;
  });
  await undone.catch((error: unknown) => {
    if (error !== UNDO) throw error;
  });
}
