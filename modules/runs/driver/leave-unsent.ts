/** Gives back the calls that a driver has claimed for itself and never sent. */
import { isDatabaseAway } from '../../../db/database-errors.ts';
import type { CallState } from '../../../core/state.ts';
import type { MadeAttempt } from '../../tool-calls/attempt.ts';
import { NOT_SENT } from '../../tool-calls/claim-tool-call.ts';
import { toClaim } from './commit-attempts.ts';
import { isCreatedAfterAll } from './initial-commit.ts';
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
export async function leaveUnsent(drive: Drive, error: unknown): Promise<void> {
  const { context, log, run, uncommitted } = drive;
  const { initialCommit } = uncommitted;
  const warn = (reason: unknown) => context.log.warn({ err: reason, run: run.id }, 'call left to the next driver');
  if (initialCommit) {
    // Only a lost answer leaves it in doubt whether there is a run. A client waits for it, and gets its error at once.
    if (!isDatabaseAway(error)) return;
    initialCommit.failed(error);
    // One that has claimed no call goes on after its lease, whenever it comes.
    if (!claimsCalls(drive) || !(await isCreatedAfterAll(drive).catch(warn))) return;
  }
  const leave = async (call: CallState) => {
    const own = drive.step.ownCalls.get(call.id);
    if (call.mode !== 'inline' || !own || own.isSent) return;
    if (!own.isBegun && !own.isPutOff) return;
    const made = { ...UNSENT, claim: toClaim({ drive, call, attempt: call.attempt }, own.row) };
    await settleLate(drive, { made, claimId: own.claimId });
  };
  const left = await Promise.allSettled(log.state.calls.map(leave));
  for (const each of left) if (each.status === 'rejected') warn(each.reason);
}

function claimsCalls({ step: { ownCalls, dispatched } }: Drive): boolean {
  return dispatched.size > 0 || [...ownCalls.values()].some(({ isBegun }) => isBegun);
}
