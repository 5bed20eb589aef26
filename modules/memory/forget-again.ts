/** Looks again at what has been forgotten: what was about to be written down then is forgotten, too, whoever died meanwhile. */
import { LIMITS } from '../../core/limits.ts';
import { forgetAgain, listDueForgettings } from '../../db/memory-forget.ts';
import { forEachIsolated } from '../for-each-isolated.ts';
import type { MemoryContext } from './memory-context.ts';

/** At most so many at once; answers how many. */
export async function repeatForgetting({ db, log }: Pick<MemoryContext, 'db' | 'log'>): Promise<number> {
  const rows = await listDueForgettings(db, LIMITS.sweepRows);
  const done = await forEachIsolated(log, { rows }, ({ tenant_id: tenantId, id }) =>
    db.withTenant(tenantId, (tx) => forgetAgain(tx, id)),
  );
  return done.length;
}
