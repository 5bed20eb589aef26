/** A run that its first driver creates (`InitialCommit`). */
import { toLogged } from '../../../core/events.ts';
import type { ClaimedRun, EventRow, RunRow } from '../../../db/claim-run.ts';
import type { RunChange } from '../../../db/commit-run.ts';
import type { InitialCommit } from '../../../jobs/slot-reservation.ts';
import { toRunChange } from '../../run-log/run-change.ts';

/** The ids of a run that is to be created. */
export type NewRun = Pick<RunRow, 'id' | 'tenant_id' | 'workspace_id' | 'lineage'>;

/** What the driver begins with: the run as a claim would read it, if it were there. */
export function claimOf(run: NewRun, { events, policyEpoch }: InitialCommit): ClaimedRun {
  const { create } = toRunChange({ ...run, last_seq: 0 }, events);
  const row = { ...create, fence: 1 } as unknown as RunRow;
  const logged = events.map((event, index) => ({ ...toLogged(event), seq: index + 1, occurred_at: '' }) as EventRow);
  const nothing = { checkpoint: null, messages: [], outcomes: {}, from: null };
  return { ok: true, run: row, policy_epoch: policyEpoch, events: logged, ...nothing };
}

/** What makes a driver's change the one that creates its run. */
export function creation(initialCommit: InitialCommit, change: RunChange): Partial<RunChange> {
  const { dormant = false, fence, checkpoint } = change;
  return {
    create: { ...change.create, fence, dormant, checkpoint_seq: checkpoint?.['seq'] },
    ...(initialCommit.thread && { thread: initialCommit.thread }),
    policy_epoch: initialCommit.policyEpoch,
  };
}
