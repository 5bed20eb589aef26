/** Makes the model call of a step: announced, within its budgets, let through by the rate limiter; or says after how long to try again. */
import type { Decision } from '../../../core/decide.ts';
import { LIMITS } from '../../../core/limits.ts';
import { commit, type Park } from './commit.ts';
import { findBudgets, lookAtBudgets, releaseReservation } from '../../budgets/hold-to-budget.ts';
import { chooseTurnExamples } from './turn-examples.ts';
import { leaveOutForgotten, loadMemory } from './load-memory.ts';
import type { Drive } from './drive-state.ts';
import { catchUp, isHeldUp } from './suspension.ts';
import { compactIfDue, mustCompact, SummaryFailure } from './compact.ts';
import { announce, announceUnmade, reserveCall } from './announce.ts';
import { think } from './think.ts';
import { ParkedError } from './provider-outage.ts';
import { ThrottledError } from './rate-limiter.ts';

type CallModel = Extract<Decision, { kind: 'call_model' }>;

/** Undefined if the run's state says what is next; else the run is to be put off. Throws TurnFailure. */
export async function makeModelCall(drive: Drive, call: CallModel): Promise<{ afterMs: number } | Park | undefined> {
  if (!call.announced) {
    await loadMemory(drive, call);
    // What a summary is asked for may not be taken back any more.
    if (drive.uncommitted.reconsider && mustCompact(drive)) {
      await commit(drive);
      if (drive.log.state.queued) return undefined;
    }
    const examples = await chooseTurnExamples(drive, call);
    const later = await orLater(drive, () => compact(drive, call));
    if (later) return later;
    announce(drive, call, examples);
  }
  await findBudgets(drive);
  reserveCall(drive, call);
  const { messages, reservations } = drive.log.pending;
  if (!call.announced || messages.length > 0 || reservations.length > 0) await commit(drive);
  // The commit may have found that the policy epoch has advanced, or that the user has said something that this call is to read.
  await catchUp(drive);
  if (isHeldUp(drive, call)) return undefined;
  // Where a newer message has taken the place of one that the call was announced with, it is announced anew.
  if (drive.log.state.queued?.mode === 'steer' || !drive.log.state.modelCall) return undefined;
  await leaveOutForgotten(drive);
  const answer = await lookAtBudgets(drive);
  if (answer === 'later') return { afterMs: Math.round(LIMITS.budgetPauseMs * (0.5 + Math.random())) };
  if (answer === 'decide') return undefined;
  return orLater(drive, () => think(drive, call));
}

/** What the user has said stays in the conversation where the turn fails because no summary could be made. */
async function compact(drive: Drive, call: CallModel): Promise<void> {
  try {
    await compactIfDue(drive, call.step);
  } catch (error) {
    if (error instanceof SummaryFailure) announceUnmade(drive, call, { code: error.code, message: error.message });
    throw error;
  }
}

/** Does what asks a model, or says until when the run is put off. */
export async function orLater(drive: Drive, act: () => Promise<void>): Promise<{ afterMs: number } | Park | undefined> {
  try {
    await act();
    return undefined;
  } catch (error) {
    if (!(error instanceof ThrottledError) && !(error instanceof ParkedError)) throw error;
    releaseReservation(drive, 'released');
    if (error instanceof ParkedError) return { park: error.park };
    // Runs that wait must not all go on at once when the rate limiter lets requests through again.
    return { afterMs: error.waitMs + Math.ceil(Math.random() * Math.min(error.waitMs, 1000)) };
  }
}
