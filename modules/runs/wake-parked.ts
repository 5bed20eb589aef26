/** Wakes runs that wait for a provider: all once it is back; until then, one at a time to ask whether it is. */
import { isTerminal } from '../../core/events.ts';
import { LIMITS } from '../../core/limits.ts';
import { claimRunsToWake, leaveProbes, unparkRun } from '../../db/model-outages.ts';
import { TURNS } from '../../jobs/turns.ts';
import { newId } from '../../lib/new-id.ts';
import { forEachIsolated } from '../for-each-isolated.ts';
import type { Context } from '../governance/context.ts';
import { appendToRun } from '../run-log/append-to-run.ts';

/** Time for a woken run to begin asking for all, before another is woken. */
const PROBE_BEGINS_MS = 30_000;
const AT_A_TIME = 10;

/** One tick; returns the number of runs woken. Runs beyond a tick's limit wait for the next, so that not all continue at once. */
export async function wakeParkedRuns(context: Context): Promise<number> {
  const claim = { limit: LIMITS.sweepRows, probeMs: PROBE_BEGINS_MS };
  const rows = await claimRunsToWake(context.db, claim);
  const done = await forEachIsolated(
    context.log,
    { rows, atATime: AT_A_TIME },
    ({ tenant_id: tenantId, run_id: runId }) => wake(context, { tenantId, runId }),
  );
  return done.filter(Boolean).length;
}

/** Takes the run off the list, and sends its job with the same commit; false if it has ended or is driven already. */
async function wake(context: Context, ref: { tenantId: string; runId: string }): Promise<boolean> {
  let isWoken = false;
  await appendToRun(context, ref, async (run, tx) => {
    const wasParked = await unparkRun(tx, run.id);
    isWoken = wasParked && run.dormant && !isTerminal(run.status);
    if (!isWoken) return null;
    const payload = { tenantId: ref.tenantId, runId: run.id };
    return { events: [], outbox: [{ id: newId(), queue: TURNS.name, at_position: true, payload }] };
  });
  if (!isWoken) await leaveProbes(context.db, ref.runId);
  return isWoken;
}
