/** A run that its first driver creates (`Birth`). */
import { toLogged } from '../../../core/events.ts';
import { createdRow, project, type RowChanges } from '../../../core/project.ts';
import type { ClaimedRun, EventRow, RunRow } from '../../../db/claim-run.ts';
import type { RunChange } from '../../../db/commit-run.ts';
import type { InitialCommit } from '../../../jobs/slot-reservation.ts';

/** Whose run it is to be. */
export type NewRun = Pick<RunRow, 'id' | 'tenant_id' | 'workspace_id' | 'lineage'>;

/** What the driver begins with: the run as a claim would read it, if it were there. */
export function claimOf(run: NewRun, { events, policyEpoch }: InitialCommit): ClaimedRun {
  const { id: runId, tenant_id: tenantId, workspace_id: workspaceId, lineage } = run;
  const rows = project({ runId, tenantId, workspaceId, lineage, firstSeq: 1, at: () => 'now' }, events);
  const row = { ...createdRow(rows, events.length), fence: 1 } as unknown as RunRow;
  const logged = events.map((event, index) => ({ ...toLogged(event), seq: index + 1, occurred_at: '' }) as EventRow);
  const nothing = { checkpoint: null, messages: [], outcomes: {}, from: null };
  return { ok: true, run: row, policy_epoch: policyEpoch, events: logged, ...nothing };
}

/** What makes a driver's change the one that creates its run; `rows` are those of all its events. */
export function creation(initialCommit: InitialCommit, change: RunChange, rows: RowChanges): Partial<RunChange> {
  const { dormant = false, fence, checkpoint } = change;
  const create = { ...createdRow(rows, change.events.length), fence, dormant, checkpoint_seq: checkpoint?.['seq'] };
  return {
    create,
    ...(initialCommit.thread && { thread: initialCommit.thread }),
    policy_epoch: initialCommit.policyEpoch,
  };
}
