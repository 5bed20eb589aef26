/** Deletes expired fragments and entries, which recall leaves out already. */
import { LIMITS } from '../../core/limits.ts';
import type { Tx } from '../../db/database.ts';
import { forgetConflicts } from '../../db/memory-conflicts.ts';
import { findForgetTargets, forgetInRuns, removeMemories } from '../../db/memory-forget.ts';
import { deleteFragments } from '../../db/memory-fragments.ts';
import { listExpired, lockExpired, type Expired } from '../../db/memory-work.ts';
import { forEachIsolated, whileRoundLasts } from '../for-each-isolated.ts';
import type { MemoryContext } from './memory-context.ts';

/** The act comes once an hour. */
const ROUND_MS = 30_000;
const FRAGMENTS_AT_ONCE = 100;

/**
 * Deletes a limited number at a time, until none is left or the round is over; returns how many. An entry takes along what was made from it, as if forgotten; an
 * earlier version of a fact or an archived entry goes alone, since its successor has an expiry of its own.
 */
export async function dropExpired({ db, log }: Pick<MemoryContext, 'db' | 'log'>): Promise<number> {
  return whileRoundLasts(async () => {
    const all = await listExpired(db, LIMITS.sweepRows);
    const fragments = await dropFragments({ db, log }, all);
    const rows = all.flatMap(({ kind, ...row }) => (kind === 'fragment' ? [] : [{ ...row, kind }]));
    const entries = await forEachIsolated(log, { rows }, ({ tenant_id: tenantId, ...expired }) =>
      db.withTenant(tenantId, (tx) => drop(tx, expired)),
    );
    const done = fragments + entries.length;
    return { done, hasMore: done >= LIMITS.sweepRows };
  }, ROUND_MS);
}

interface OfTenant {
  tenantId: string;
  ids: readonly string[];
}

/** Fragments go many together, each by itself only if one of them fails. */
async function dropFragments(
  { db, log }: Pick<MemoryContext, 'db' | 'log'>,
  expired: readonly Expired[],
): Promise<number> {
  const remove = ({ tenantId, ids }: OfTenant) => db.withTenant(tenantId, (tx) => removeFragments(tx, ids));
  const removeBatch = async ({ tenantId, ids }: OfTenant): Promise<number> => {
    try {
      return await remove({ tenantId, ids });
    } catch (error) {
      if (ids.length === 1) throw error;
      return sum(await forEachIsolated(log, { rows: ids.map((id) => ({ tenantId, ids: [id] })) }, remove));
    }
  };
  return sum(await forEachIsolated(log, { rows: batchesOf(expired) }, removeBatch));
}

function batchesOf(expired: readonly Expired[]): OfTenant[] {
  const fragments = expired.filter(({ kind }) => kind === 'fragment');
  return [...new Set(fragments.map(({ tenant_id: tenant }) => tenant))].flatMap((tenantId) => {
    const ids = fragments.filter(({ tenant_id: tenant }) => tenant === tenantId).map(({ id }) => id);
    const count = Math.ceil(ids.length / FRAGMENTS_AT_ONCE);
    return Array.from({ length: count }, (_, n) => ({
      tenantId,
      ids: ids.slice(n * FRAGMENTS_AT_ONCE, (n + 1) * FRAGMENTS_AT_ONCE),
    }));
  });
}

const sum = (counts: readonly number[]): number => counts.reduce((all, each) => all + each, 0);

async function removeFragments(tx: Tx, expired: readonly string[]): Promise<number> {
  const ids = await deleteFragments(tx, { ids: expired, ifExpired: true });
  if (ids.length === 0) return 0;
  await forgetConflicts(tx, ids);
  await forgetInRuns(tx, ids);
  return ids.length;
}

async function drop(tx: Tx, { id, kind }: { id: string; kind: 'entry' | 'archived' }): Promise<void> {
  const expired = await lockExpired(tx, { id, kind });
  if (!expired) return;
  const { agentId, isCurrent } = expired;
  const copy = { entries: [], summaries: [], archive: [], [kind === 'entry' ? 'entries' : 'archive']: [id] };
  const targets = isCurrent ? await findForgetTargets(tx, { agentId, ids: [id] }) : copy;
  await forgetInRuns(tx, [...targets.entries, ...targets.summaries, ...targets.archive]);
  await removeMemories(tx, { agentId, targets });
}
