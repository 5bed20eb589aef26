/** Maintains the index of agents' errors, including errors from before it existed. */
import { LIMITS } from '../../core/limits.ts';
import { hasErrorsIndex, listUnnamedFailures, makeErrorsIndex, nameFailedAgents } from '../../db/errors-index.ts';
import type { ProcessContext } from '../process-context.ts';
import { forEachIsolated } from '../for-each-isolated.ts';

/** The act ends before it is due again; the next one continues. */
const WITHIN_MS = 30_000;

/**
 * Fills in the agents of failed turns, one transaction a batch, and creates the index when all have one. Until then errors are
 * found without it. Returns the number of turns changed.
 */
export async function indexErrors(
  { db, log }: Pick<ProcessContext, 'db' | 'log'>,
  batchRows: number = LIMITS.sweepRows,
): Promise<number> {
  if (await db.asMaintenance(hasErrorsIndex)) return 0;
  const endsAtMs = performance.now() + WITHIN_MS;
  let [named, left] = [0, 0];
  let before: string | undefined;
  while (performance.now() < endsAtMs) {
    const unnamed = await listUnnamedFailures(db, batchRows, before);
    if (unnamed.length === 0) {
      if (left === 0) await makeErrorsIndex(db);
      break;
    }
    before = unnamed.at(-1)?.id;
    const rows = [...new Set(unnamed.map(({ tenant_id }) => tenant_id))].map((tenant) => ({
      tenant,
      ids: unnamed.filter(({ tenant_id }) => tenant_id === tenant).map(({ id }) => id),
    }));
    const done = await forEachIsolated(log, { rows }, ({ tenant, ids }) =>
      db.withTenant(tenant, (tx) => nameFailedAgents(tx, ids)),
    );
    const batch = done.reduce((sum, each) => sum + each, 0);
    named += batch;
    // Failures were logged, and are retried by the next act.
    left += unnamed.length - batch;
  }
  return named;
}
