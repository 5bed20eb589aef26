/** Gives back the calls that a driver has claimed for itself and never sent. */
import type { CallState } from '../../../core/state.ts';
import type { MadeAttempt } from '../../tool-calls/attempt.ts';
import { NOT_SENT } from '../../tool-calls/claim-tool-call.ts';
import { toClaim } from './commit-attempts.ts';
import { settleLate } from './lost-attempts.ts';
import type { Drive } from './drive-state.ts';

/** The end of an attempt that was not sent. */
const UNSENT: Omit<MadeAttempt, 'claim'> = {
  ...NOT_SENT,
  settlement: { status: 'retry', waitMs: 0, code: NOT_SENT.outcome.code, message: NOT_SENT.outcome.message },
  facts: [],
};

/**
 * Says of the inline calls of a drive that ends by an error which of them were not sent, also where nobody knows whether they
 * were claimed: nobody else can, and they would be of unknown outcome. Waits for the database if necessary. Never throws.
 */
export async function leaveUnsent(drive: Drive): Promise<void> {
  const { context, log, run, uncommitted } = drive;
  // A client waits for the commit that creates the run, and gets its error at once.
  if (uncommitted.initialCommit) return;
  const leave = async (call: CallState) => {
    const own = drive.step.ownCalls.get(call.id);
    if (call.mode !== 'inline' || !own?.isBegun || own.isSent) return;
    const made = { ...UNSENT, claim: toClaim({ drive, call, attempt: call.attempt }, own.row) };
    await settleLate(drive, { made, claimId: own.claimId });
  };
  const left = await Promise.allSettled(log.state.calls.map(leave));
  for (const each of left)
    if (each.status === 'rejected') context.log.warn({ err: each.reason, run: run.id }, 'call left to the next driver');
}
