/** Ends tasks whose deadline has passed, by a look at their workflow. */
import { LIMITS } from '../../core/limits.ts';
import { listDueTasks } from '../../db/task-upkeep.ts';
import { forEachIsolated } from '../for-each-isolated.ts';
import type { Context } from '../governance/context.ts';
import { lookInPassing } from './advance-parent.ts';

/** Returns how many there were. */
export async function endDueTasks(context: Context): Promise<number> {
  const rows = await listDueTasks(context.db, LIMITS.sweepRows);
  const done = await forEachIsolated(context.log, { rows }, ({ tenant_id: tenantId, workflow_id: runId }) =>
    lookInPassing(context, { tenantId, runId }),
  );
  return done.length;
}
