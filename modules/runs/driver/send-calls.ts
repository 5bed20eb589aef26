/** Calls made by workers or the client: after a moment at most, the run waits for them without a driver. */
import { awaitCalls } from '../../../core/decision-events/turns.ts';
import { isSettled } from '../../../core/state.ts';
import { appendEvent } from '../../run-log/run-log.ts';
import { attachCalls } from './await-attached.ts';
import { commit } from './commit.ts';
import { claimLocally } from './dispatch-calls.ts';
import type { Drive } from './drive-state.ts';

/** Yields the run to those who make its calls. Undefined if the drive goes on: decide anew. */
export async function sendCalls(drive: Drive): Promise<'dormant' | 'yielded' | undefined> {
  const { log } = drive;
  // Sends the calls that were not marked as sent at the last commit, each once; reconciliation replaces lost jobs.
  const sent = new Set(log.base.calls.filter((call) => call.sent).map((call) => call.id));
  const unsent = log.state.calls.filter(
    (call) => call.mode === 'queued' && call.status === 'pending' && !sent.has(call.id),
  );
  const jobs = claimLocally(drive, unsent);
  const { dispatched } = drive.step;
  if (dispatched.size > 0 && log.state.calls.every((call) => isSettled(call) || dispatched.has(call.id)))
    return stayAttached(drive);
  appendEvent(log, ...awaitCalls(log.state));
  // Calls under way in this process are claimed, and need no job.
  const hasBegun = dispatched.size > 0 || (drive.attached?.open.size ?? 0) > 0;
  if (jobs.length === 0 && !hasBegun) return (await commit(drive, 'dormant')) ? 'dormant' : undefined;
  return (await commit(drive, { awaitCalls: jobs })) ? 'yielded' : undefined;
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
