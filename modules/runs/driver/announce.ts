/** Before a model call: one commit announces it in the log and reserves its budgets. */
import { announceModelCall, reachStepLimit, recordModelFailure } from '../../../core/decision-events/model-calls.ts';
import { completeCallBatch } from '../../../core/decision-events/call-batches.ts';
import { decide, type Decision } from '../../../core/decide.ts';
import { nextToRead } from '../../../core/message-queue.ts';
import { limitReached } from '../../../core/graph/graph-step.ts';
import { mustCompact } from './compact.ts';
import { modelsFor } from './ask-model.ts';
import { appendEvent, lengthOf, mark, rewind } from '../../run-log/run-log.ts';
import { askedOf, besideTokens, offerOf, sourceOf, toRequest } from './build-request.ts';
import { recordCut } from './record-cut.ts';
import { saveCheckpointIfDue } from './save-checkpoint.ts';
import { reserve } from '../../budgets/hold-to-budget.ts';
import { newStep, type Drive } from './drive-state.ts';

type CallModel = Extract<Decision, { kind: 'call_model' }>;

/**
 * Announces the model call in the log, in the commit before it: a new step begins. `examples`: the worked examples shown; by
 * default those chosen for the turn.
 */
export function announce(drive: Drive, call: CallModel, examples = drive.log.state.turn?.examples): void {
  const { log, limits } = drive;
  // Results written by others (workers, clients) are in no checkpoint yet.
  if (log.state.calls.length > 0 && !log.pending.checkpoint) saveCheckpointIfDue(drive);
  appendEvent(log, ...reachStepLimit(log.state, call, limitReached(log.state, limits) ?? limits.maxSteps));
  const [first] = modelsFor(drive);
  const { provider, model, rateLimiter, rates } = first;
  drive.step = newStep();
  // The rate limiter of a model with rate limits is asked in a step of its own.
  log.pending.rateLimiter = rates ? null : rateLimiter;
  const length = lengthOf(log);
  const fitted = recordCut(drive, first);
  const source = sourceOf(drive);
  const tokens = { estimated_tokens: fitted.tokens, fixed_tokens: besideTokens(source) };
  const window = askedOf(source.limits, first);
  const asked = { provider, model, length, ...tokens, ...(examples && { examples }), ...offerOf(source, window) };
  appendEvent(log, announceModelCall(log.state, call, asked));
  drive.step.announced = { asked: window, seq: log.state.seq, fitted };
}

/** Records a call that is not made because its preparation failed. The log counts the messages it would have read; nothing is cut. */
export function announceUnmade(drive: Drive, call: CallModel, error: { code: string; message: string }): void {
  const { log } = drive;
  const [{ provider, model }] = modelsFor(drive);
  const asked = { provider, model, length: lengthOf(log), estimated_tokens: 0 };
  appendEvent(log, announceModelCall(log.state, call, asked));
  appendEvent(log, recordModelFailure(log.state, call.step, { model, error }));
}

/** Reserves the call's share of its budgets, in the commit before the call. */
export function reserveCall(drive: Drive, call: Pick<CallModel, 'step' | 'toolChoice'>): void {
  const [resolved] = modelsFor(drive);
  const { provider, model } = resolved;
  const request = () => toRequest(drive, { resolved, toolChoice: call.toolChoice });
  reserve(drive, { step: call.step, provider, model, request });
}

/** Once every call has its result, announces the next model call together with the last result. */
export function announceNext(drive: Drive): void {
  const next = decide(drive.log.state, drive.limits);
  // If the conversation must be compacted, the announcement comes after that.
  if (next.kind !== 'call_model' || next.announced || mustCompact(drive)) return;
  // Nor if the model is to read new user messages first.
  if (drive.log.state.queued?.mode === 'steer' || nextToRead(drive.log.state, lengthOf(drive.log))) return;
  const point = mark(drive.log);
  const { step } = drive;
  appendEvent(drive.log, ...completeCallBatch(drive.log.state));
  announce(drive, next);
  reserveCall(drive, next);
  drive.uncommitted.reconsider = () => {
    if (drive.log.state.queued?.mode !== 'steer') return;
    rewind(drive.log, point);
    drive.step = step;
  };
}
