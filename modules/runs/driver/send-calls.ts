/** Calls that workers or the client make: the run waits for them without a driver. */
import { awaitCalls } from '../../../core/decision-events/turns.ts';
import { appendEvent } from '../../run-log/run-log.ts';
import { commit } from './commit.ts';
import { claimLocally } from './dispatch-calls.ts';
import type { DriveSession } from './session.ts';

/** Hands the run over to whoever makes its calls. Undefined if others have written meanwhile: decide anew. */
export async function sendCalls(session: DriveSession): Promise<'dormant' | 'handed_over' | undefined> {
  const { log } = session;
  appendEvent(log, ...awaitCalls(log.state));
  // Whatever the log did not know as sent when it was last committed is sent with this commit, and nothing twice;
  // reconciliation replaces jobs that were lost.
  const sent = new Set(log.base.calls.filter((call) => call.sent).map((call) => call.id));
  const unsent = log.state.calls.filter(
    (call) => call.mode === 'queued' && call.status === 'pending' && !sent.has(call.id),
  );
  const jobs = claimLocally(session, unsent);
  const isBegun = session.step.dispatched.size > 0;
  if (jobs.length === 0 && !isBegun) return (await commit(session, 'dormant')) ? 'dormant' : undefined;
  return (await commit(session, { awaitCalls: jobs })) ? 'handed_over' : undefined;
}
