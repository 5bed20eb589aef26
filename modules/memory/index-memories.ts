/** Makes the indexes of memories that a migration leaves to maintenance. */
import { LIMITS } from '../../core/limits.ts';
import {
  fillUsers,
  listMissingIndexes,
  listWithoutUser,
  makeMemoryIndex,
  needsUsers,
} from '../../db/memory-indexes.ts';
import { forEachIsolated } from '../for-each-isolated.ts';
import type { MemoryContext } from './memory-context.ts';

/** The act ends before it is due again; the next one continues. */
const WITHIN_MS = 30_000;

/**
 * Fills in the users of entries, one transaction an agent and batch, and creates each missing index, that of users when all
 * entries have theirs. Returns the number of entries changed.
 */
export async function indexMemories(
  { db, log }: Pick<MemoryContext, 'db' | 'log'>,
  batchRows: number = LIMITS.sweepRows,
): Promise<number> {
  let filled = 0;
  for (const index of await db.asMaintenance(listMissingIndexes)) {
    if (needsUsers(index)) {
      const { done, left } = await fillAll({ db, log }, batchRows);
      filled += done;
      if (left) break;
    }
    await makeMemoryIndex(db, index);
  }
  return filled;
}

/** `left`: some entries have no user yet, since time was up or their agents failed, which was logged. */
async function fillAll(
  { db, log }: Pick<MemoryContext, 'db' | 'log'>,
  batchRows: number,
): Promise<{ done: number; left: boolean }> {
  const endsAtMs = performance.now() + WITHIN_MS;
  let [done, missed] = [0, 0];
  let before: string | undefined;
  while (performance.now() < endsAtMs) {
    const unnamed = await listWithoutUser(db, batchRows, before);
    if (unnamed.length === 0) return { done, left: missed > 0 };
    before = unnamed.at(-1)?.id;
    const agents = new Map(unnamed.map(({ agent_id: agentId, tenant_id: tenant }) => [agentId, tenant]));
    const rows = [...agents].map(([agentId, tenant]) => ({
      tenant,
      agentId,
      ids: unnamed.filter(({ agent_id: each }) => each === agentId).map(({ id }) => id),
    }));
    const batch = await forEachIsolated(log, { rows }, ({ tenant, ...of }) =>
      db.withTenant(tenant, (tx) => fillUsers(tx, of)),
    );
    const filled = batch.reduce((sum, each) => sum + each, 0);
    done += filled;
    missed += unnamed.length - filled;
  }
  return { done, left: true };
}
