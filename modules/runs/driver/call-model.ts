/** Makes the model call of a step: announces it, keeps to its budgets, asks the rate limiter; or says when to try again. */
import type { Decision } from '../../../core/decide.ts';
import { LIMITS } from '../../../core/limits.ts';
import { commit, type Park } from './commit.ts';
import { findBudgets, lookAtBudgets, releaseReservation } from '../../budgets/hold-to-budget.ts';
import { chooseTurnExamples } from './turn-examples.ts';
import { leaveOutHanded } from './leave-out-handed.ts';
import { leaveOutForgotten, loadMemory } from './load-memory.ts';
import type { Drive } from './drive-state.ts';
import { catchUp, isHeldUp } from './suspension.ts';
import { compactIfDue, mustCompact, SummaryFailure } from './compact.ts';
import { announce, announceUnmade, reserveCall } from './announce.ts';
import { think } from './think.ts';
import { ParkedError } from './provider-outage.ts';
import { ThrottledError } from './rate-limiter.ts';

type CallModel = Extract<Decision, { kind: 'call_model' }>;

/** Undefined if the run's state determines what is next; otherwise when the run continues. Throws TurnFailure. */
export async function makeModelCall(drive: Drive, call: CallModel): Promise<{ afterMs: number } | Park | undefined> {
  if (!call.announced) {
    await loadMemory(drive, call);
    // The messages to be summarised must not be rewound later.
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
  // The commit may have found a newer policy epoch, or a new user message that this call is to read.
  await catchUp(drive);
  if (isHeldUp(drive, call)) return undefined;
  // If a newer message has replaced one announced with the call, the call is announced again.
  if (drive.log.state.queued?.mode === 'steer' || !drive.log.state.modelCall) return undefined;
  await leaveOutForgotten(drive);
  await leaveOutHanded(drive);
  const answer = await lookAtBudgets(drive);
  if (answer === 'later') return { afterMs: Math.round(LIMITS.budgetPauseMs * (0.5 + Math.random())) };
  if (answer === 'decide') return undefined;
  return orLater(drive, () => think(drive, call));
}

/** Compacts if due. If no summary can be made and the turn fails, the user's message stays in the conversation. */
async function compact(drive: Drive, call: CallModel): Promise<void> {
  try {
    await compactIfDue(drive, call.step);
  } catch (error) {
    if (error instanceof SummaryFailure) announceUnmade(drive, call, { code: error.code, message: error.message });
    throw error;
  }
}

/** Runs `act`, which asks a model; if the run must wait, answers for how long. */
export async function orLater(drive: Drive, act: () => Promise<void>): Promise<{ afterMs: number } | Park | undefined> {
  try {
    await act();
    return undefined;
  } catch (error) {
    if (!(error instanceof ThrottledError) && !(error instanceof ParkedError)) throw error;
    releaseReservation(drive);
    if (error instanceof ParkedError) return { park: error.park };
    // Jitter: waiting runs must not all go on the moment the rate limiter lets requests through.
    return { afterMs: error.waitMs + Math.ceil(Math.random() * Math.min(error.waitMs, 1000)) };
  }
}
