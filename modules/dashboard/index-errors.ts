/** Lets the errors of an agent be found by an index, also those from before there was one. */
import { LIMITS } from '../../core/limits.ts';
import { hasErrorsIndex, listUnnamedFailures, makeErrorsIndex, nameFailedAgents } from '../../db/errors-index.ts';
import type { ProcessContext } from '../process-context.ts';
import { forEachIsolated } from '../for-each-isolated.ts';

/** An act ends before it is due again; the next one goes on. */
const WITHIN_MS = 30_000;

/**
 * Names the agents of turns that have failed, a batch a transaction, and makes the index when all are named. Until then
 * errors are found without it. Answers how many turns it named.
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
    // What could not be named is told of in the log, and tried again by the next act.
    left += unnamed.length - batch;
  }
  return named;
}
