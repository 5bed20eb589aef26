/** Repeats past forgettings, to catch what was about to be stored at the time, even if a process has died since. */
import { LIMITS } from '../../core/limits.ts';
import { forgetAgain, listDueForgettings } from '../../db/memory-forget.ts';
import { forEachIsolated } from '../for-each-isolated.ts';
import type { MemoryContext } from './memory-context.ts';

/** Repeats a limited number at a time; returns how many. */
export async function repeatForgetting({ db, log }: Pick<MemoryContext, 'db' | 'log'>): Promise<number> {
  const rows = await listDueForgettings(db, LIMITS.sweepRows);
  const done = await forEachIsolated(log, { rows }, ({ tenant_id: tenantId, id }) =>
    db.withTenant(tenantId, (tx) => forgetAgain(tx, id)),
  );
  return done.length;
}
