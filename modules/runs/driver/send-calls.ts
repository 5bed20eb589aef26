/** Calls made by workers or the client: after a moment at most, the run waits for them without a driver. */
import { awaitCalls } from '../../../core/decision-events/turns.ts';
import { isSettled, type CallState } from '../../../core/state.ts';
import { listLeftCalls } from '../../../db/tool-calls.ts';
import { appendEvent } from '../../run-log/run-log.ts';
import { attachCalls } from './await-attached.ts';
import { commit } from './commit.ts';
import { waitingIn } from './follow-graph.ts';
import { claimLocally } from './dispatch-calls.ts';
import type { Drive } from './drive-state.ts';

/**
 * Yields the run to those who make its calls, and to those who are `asked` meanwhile. Undefined if the drive goes on: decide
 * anew.
 */
export async function sendCalls(drive: Drive, asked: readonly CallState[]): Promise<'dormant' | 'yielded' | undefined> {
  const { log } = drive;
  // Sends the calls that were not marked as sent at the last commit, each once; reconciliation replaces lost jobs.
  const sent = new Set(log.base.calls.filter((call) => call.sent).map((call) => call.id));
  const unsent = log.state.calls.filter(
    (call) => call.mode === 'queued' && call.status === 'pending' && !sent.has(call.id),
  );
  const left = await leftByOthers(drive);
  const jobs = [...left, ...claimLocally(drive, unsent)];
  const { dispatched } = drive.step;
  const isAsked = ({ id }: CallState) => asked.some((call) => call.id === id);
  if (
    dispatched.size > 0 &&
    log.state.calls.every((call) => isSettled(call) || dispatched.has(call.id) || isAsked(call))
  )
    return stayAttached(drive);
  appendEvent(log, ...awaitCalls(log.state, asked, waitingIn(drive).node?.name));
  // Calls under way in this process are claimed, and need no job.
  const hasBegun = dispatched.size > 0 || (drive.attached?.open.size ?? 0) > 0;
  if (jobs.length === 0 && !hasBegun) return (await commit(drive, 'dormant')) ? 'dormant' : undefined;
  return (await commit(drive, { awaitCalls: jobs })) ? 'yielded' : undefined;
}

/**
 * Calls that a lost process has left under way. It may have made them without a job, so they get one here: their next
 * attempts, or their ends. Those whose lease still runs are somebody's.
 */
async function leftByOthers({ context, tenantId, log, attached }: Drive): Promise<CallState[]> {
  const isOthers = ({ id, mode, status }: CallState) =>
    mode === 'queued' && status === 'running' && !attached?.open.has(id);
  const others = log.base.calls.filter(isOthers);
  if (others.length === 0) return [];
  const ids = others.map(({ id }) => id);
  const left = await context.db.withTenant(tenantId, (tx) => listLeftCalls(tx, ids));
  const attempts = new Map(left.map(({ id, attempt }) => [id, attempt]));
  return others.flatMap((call) => {
    const attempt = attempts.get(call.id);
    return attempt === undefined ? [] : [{ ...call, attempt }];
  });
}

/** All open calls begin in this process: holds the run until they end, for a moment at most. */
async function stayAttached(drive: Drive): Promise<undefined> {
  const attached = attachCalls(drive);
  drive.attached = attached;
  await commit(drive);
  if (attached.open.size > 0) await attached.wait();
  else drive.attached = null;
  return undefined;
}
