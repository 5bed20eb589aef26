/** The job that continues a run. */
import type { RunRow } from '../../db/claim-run.ts';
import type { OutboxRow } from '../../db/commit-run.ts';
import { TURNS, type TurnJob } from '../../jobs/turns.ts';
import { newId } from '../../lib/new-id.ts';

/** Drives the run on from the position at which the commit that sends it leaves the log. */
export function turnJob({ tenantId, runId, turnId, traceparent }: Omit<TurnJob, 'seq'>): OutboxRow {
  return { id: newId(), queue: TURNS.name, at_position: true, payload: { tenantId, runId, turnId, traceparent } };
}

/** The same for a run that waits; one that is being driven notices the events by itself. */
export function turnJobOf({ tenant_id: tenantId, id: runId, open_turn_id }: RunRow): OutboxRow {
  return turnJob({ tenantId, runId, turnId: open_turn_id ?? undefined });
}
