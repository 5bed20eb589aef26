/** Holds a workflow's run while a model is asked, as a driver does, so that no other process asks the same. */
import type { RunRow } from '../../../db/claim-run.ts';
import { commitRun, NO_ROWS } from '../../../db/commit-run.ts';
import { SUBTASKS } from '../../../jobs/subtasks.ts';
import { linkSignals } from '../../../lib/link-signals.ts';
import { newId } from '../../../lib/new-id.ts';
import type { Context } from '../../governance/context.ts';
import { claimApart } from '../../run-log/claim-suspect.ts';
import { keepLease } from '../../run-log/keep-lease.ts';

export interface HeldWorkflow {
  run: RunRow;
  /** Called after each commit that brings the run further (`areProgress`): it is no suspect any more. */
  onProgress: () => void;
  /** Fires when the run is cancelled, its lease is lost, or the process stops. */
  signal: AbortSignal;
}

/** A held run. */
export interface Hold extends Pick<HeldWorkflow, 'run' | 'onProgress'> {
  context: Context;
  /** The model that has answered, if one has. */
  answered: { model?: string };
}

/**
 * Does `work` under the run's lease; undefined if another process holds it, the lease was lost, this process stops, or it
 * works on another suspect (`claimApart`), after which another one goes on. What `work` writes must check the run's fence.
 */
export async function holdWorkflow<T>(
  context: Context,
  { tenantId, runId, stop }: { tenantId: string; runId: string; stop: AbortSignal },
  work: (held: HeldWorkflow) => Promise<T>,
): Promise<T | undefined> {
  const { leaseMs } = context.config;
  const sinceMs = performance.now();
  const of = { tenant_id: tenantId, run_id: runId, seq: 0, leaseMs };
  const { claimed, leave } = await claimApart(context, of);
  if (!claimed.ok) return undefined;
  const { run } = claimed;
  const lost = new AbortController();
  const lease = keepLease({ db: context.db, leaseMs }, { tenantId, runId, fence: run.fence, sinceMs }, { lost });
  const unsubscribe = context.bus.subscribe(runId, (message) => {
    if (message.kind === 'abort' && run.fence < (message.below ?? Infinity)) lost.abort();
  });
  const { signal, release } = linkSignals(lost.signal, stop);
  try {
    return await work({ run, signal, onProgress: leave });
  } catch (error) {
    if (lost.signal.aborted) return undefined;
    await giveBack(context, run);
    if (stop.aborted) return undefined;
    throw error;
  } finally {
    lease.stop();
    unsubscribe();
    release();
    leave();
  }
}

/** Releases the run with nothing written: the next look decides anew. */
export async function giveBack(context: Context, { id, tenant_id: tenantId, fence }: RunRow): Promise<void> {
  const payload = { tenantId, runId: id };
  const outbox = [{ id: newId(), queue: SUBTASKS.name, at_position: true as const, payload }];
  const change = { ...NO_ROWS, tenant_id: tenantId, run_id: id, fence, events: [], release: true, outbox };
  const result = await commitRun(context.db, change);
  if (result.ok) void context.outbox.send(id, result, outbox);
}
