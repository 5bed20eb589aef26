/** Turns events into a change of a run, with the rows that follow; for drivers and the API alike. */
import { toLogged, type NewEvent } from '../../core/events.ts';
import { areProgress } from '../../core/lost-leases.ts';
import { project } from '../../core/projections.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { RunChange } from '../../db/commit-run.ts';

/** The run, with the position before the events; 0 if they create it. */
type ChangedRun = Pick<RunRow, 'id' | 'tenant_id' | 'workspace_id' | 'last_seq'>;

/** Converts checked events to the form `commit_run` takes. */
export function toRunChange(run: ChangedRun, events: readonly NewEvent[]): RunChange {
  const owner = { tenantId: run.tenant_id, workspaceId: run.workspace_id, runId: run.id };
  const { runs, ...others } = project(owner, events, { firstSeq: run.last_seq + 1, at: () => 'now' });
  const { insert, set = {}, add = {} } = runs[0] ?? {};
  const rows = Object.fromEntries(Object.entries(others).filter(([, changes]) => changes.length > 0));
  return {
    tenant_id: run.tenant_id,
    run_id: run.id,
    expect: run.last_seq,
    events: events.map(toLogged),
    runs: { set, add },
    rows,
    ...(events.length > 0 && !areProgress(events) && { in_place: true }),
    ...(insert && { create: { ...insert, last_seq: events.length } }),
  };
}
