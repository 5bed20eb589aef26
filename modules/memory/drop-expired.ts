/** Deletes expired fragments and entries, which recall leaves out already. */
import { LIMITS } from '../../core/limits.ts';
import type { Tx } from '../../db/database.ts';
import { forgetConflicts } from '../../db/memory-conflicts.ts';
import { findForgetTargets, forgetInRuns, removeMemories } from '../../db/memory-forget.ts';
import { deleteFragment } from '../../db/memory-fragments.ts';
import { listExpired, lockExpired, type Expired } from '../../db/memory-work.ts';
import { forEachIsolated } from '../for-each-isolated.ts';
import type { MemoryContext } from './memory-context.ts';

/**
 * Deletes a limited number at a time; returns how many. An entry takes along what was made from it, as if forgotten; an
 * earlier version of a fact or an archived entry goes alone, since its successor has an expiry of its own.
 */
export async function dropExpired({ db, log }: Pick<MemoryContext, 'db' | 'log'>): Promise<number> {
  const rows = await listExpired(db, LIMITS.sweepRows);
  const done = await forEachIsolated(log, { rows }, ({ tenant_id: tenantId, ...expired }) =>
    db.withTenant(tenantId, (tx) => drop(tx, expired)),
  );
  return done.length;
}

async function drop(tx: Tx, { id, kind }: Omit<Expired, 'tenant_id'>): Promise<void> {
  if (kind === 'fragment') {
    if (!(await deleteFragment(tx, { id, ifExpired: true }))) return;
    await forgetConflicts(tx, [id]);
    await forgetInRuns(tx, [id]);
    return;
  }
  const expired = await lockExpired(tx, { id, kind });
  if (!expired) return;
  const { agentId, isCurrent } = expired;
  const copy = { entries: [], summaries: [], archive: [], [kind === 'entry' ? 'entries' : 'archive']: [id] };
  const targets = isCurrent ? await findForgetTargets(tx, { agentId, ids: [id] }) : copy;
  await forgetInRuns(tx, [...targets.entries, ...targets.summaries, ...targets.archive]);
  await removeMemories(tx, { agentId, targets });
}
