/** A run created by its first driver (`InitialCommit`). */
import { setTimeout as sleep } from 'node:timers/promises';
import { toLogged, type NewEvent } from '../../../core/events.ts';
import { newRun } from '../../../core/projections/runs.ts';
import type { ClaimedRun, RunRow } from '../../../db/claim-run.ts';
import type { RunChange } from '../../../db/commit-run.ts';
import { STATEMENT_TIMEOUT_MS } from '../../../db/database.ts';
import { findRunRow } from '../../../db/runs.ts';
import type { InitialCommit } from '../../../jobs/slot-reservation.ts';
import { retryWhileUnavailable } from '../../run-log/retry-while-unavailable.ts';
import { PATIENCE_MS } from '../../tool-calls/run-tool-call.ts';
import type { Drive } from './drive-state.ts';

/** Ids of a run to be created. */
export type NewRun = Pick<RunRow, 'id' | 'tenant_id' | 'workspace_id' | 'lineage'>;

/** The new run as a claim would return it; `at`: when it was created, if it exists already. */
export function toClaim(
  run: NewRun,
  { events, policyEpoch, at = '' }: Pick<InitialCommit, 'events' | 'policyEpoch'> & { at?: string },
): ClaimedRun {
  const logged = events.map((event, index) => {
    const { turn_id = null, step = null, ...rest } = toLogged(event);
    return { ...rest, turn_id, step, seq: index + 1, occurred_at: at };
  });
  const nothing = { checkpoint: null, messages: [], outcomes: {}, from: null };
  return { ok: true, run: toRow(run, events), policy_epoch: policyEpoch, events: logged, ...nothing };
}

function toRow({ id, tenant_id: tenantId, workspace_id: workspaceId }: NewRun, events: readonly NewEvent[]): RunRow {
  const [created, started] = events;
  if (created?.type !== 'run.created') throw new Error(`the log of run ${id} does not begin with its creation`);
  const turn = started?.type === 'turn.started' ? started : undefined;
  const row = newRun({ runId: id, tenantId, workspaceId, at: 'now' }, created);
  return {
    ...row,
    thread_place: row.thread_place ?? null,
    open_turn_id: turn?.turn_id ?? null,
    turn_count: turn?.payload.number ?? 0,
    queued: null,
    dequeued_id: null,
    output_bytes: 0,
    last_seq: events.length,
    fence: 1,
  };
}

/** Turns a driver's change into the one that creates its run. */
export function toCreation(initialCommit: InitialCommit, change: RunChange): Partial<RunChange> {
  const { dormant = false, fence, checkpoint } = change;
  return {
    create: { ...change.create, fence, dormant, checkpoint_seq: checkpoint?.['seq'] },
    ...(initialCommit.thread && { thread: initialCommit.thread }),
    policy_epoch: initialCommit.policyEpoch,
  };
}

/** Pause between two looks for a run that a server may still be creating. */
const LOOK_MS = 500;

/**
 * Whether a creating commit whose answer is lost was made. Waits for as long as a server may still be making it: what it claims
 * could not be given back before.
 */
export async function isCreatedAfterAll({ context, tenantId, run, stop }: Drive): Promise<boolean> {
  const endsAtMs = performance.now() + STATEMENT_TIMEOUT_MS;
  const look = () => context.db.withTenant(tenantId, (tx) => findRunRow(tx, run.id));
  for (;;) {
    const isLast = stop.aborted || performance.now() > endsAtMs;
    const found = await retryWhileUnavailable(look, { forMs: PATIENCE_MS, signal: stop });
    if (found || isLast) return found !== undefined;
    await sleep(LOOK_MS, undefined, { signal: stop }).catch(() => undefined);
  }
}
