/** Before a model call: the log says that it is made, and what it may use of its budgets is set aside, in one commit. */
import { announceModelCall, reachStepLimit, recordModelFailure } from '../../../core/decision-events/model-calls.ts';
import { completeCallBatch } from '../../../core/decision-events/call-batches.ts';
import { decide, type Decision } from '../../../core/decide.ts';
import { limitReached } from '../../../core/graph/graph-step.ts';
import { mustCompact } from './compact.ts';
import { modelsFor } from './ask-model.ts';
import { appendEvent, lengthOf, mark, rewind } from '../../run-log/run-log.ts';
import { askedOf, besideTokens, offerOf, sourceOf, toRequest } from './build-request.ts';
import { recordCut } from './record-cut.ts';
import { saveCheckpointIfDue } from './save-checkpoint.ts';
import { reserve } from '../../budgets/hold-to-budget.ts';
import { newStep, type DriveSession } from './session.ts';

type CallModel = Extract<Decision, { kind: 'call_model' }>;

/**
 * Says in the log that the model is called next, in the commit before the call: a new step begins. `examples` are the worked
 * examples that it is shown: the turn's, once they have been chosen.
 */
export function announce(session: DriveSession, call: CallModel, examples = session.log.state.turn?.examples): void {
  const { log, limits } = session;
  // Results that others have written, workers or clients, are in no checkpoint yet.
  if (log.state.calls.length > 0 && !log.pending.checkpoint) saveCheckpointIfDue(session);
  appendEvent(log, ...reachStepLimit(log.state, call, limitReached(log.state, limits) ?? limits.maxSteps));
  const [first] = modelsFor(session);
  const { provider, model, rateLimiter, rates } = first;
  session.step = newStep();
  // A model with rate limits is acquired in a step of its own.
  log.pending.rateLimiter = rates ? null : rateLimiter;
  const length = lengthOf(log);
  const fitted = recordCut(session, first);
  const source = sourceOf(session);
  const tokens = { estimated_tokens: fitted.tokens, fixed_tokens: besideTokens(source) };
  const window = askedOf(source.limits, first);
  const asked = { provider, model, length, ...tokens, ...(examples && { examples }), ...offerOf(source, window) };
  appendEvent(log, announceModelCall(log.state, call, asked));
  session.step.announced = { asked: window, seq: log.state.seq, fitted };
}

/** A call that is never made, for what went wrong on the way to it: the log counts what it would have read, and cuts nothing. */
export function announceUnmade(session: DriveSession, call: CallModel, error: { code: string; message: string }): void {
  const { log } = session;
  const [{ provider, model }] = modelsFor(session);
  const asked = { provider, model, length: lengthOf(log), estimated_tokens: 0 };
  appendEvent(log, announceModelCall(log.state, call, asked));
  appendEvent(log, recordModelFailure(log.state, call.step, { model, error }));
}

/** Sets aside, in the commit before the call, what it may use of its budgets. */
export function reserveCall(session: DriveSession, call: Pick<CallModel, 'step' | 'toolChoice'>): void {
  const [resolved] = modelsFor(session);
  const { provider, model } = resolved;
  const request = () => toRequest(session, { resolved, toolChoice: call.toolChoice });
  reserve(session, { step: call.step, provider, model, request });
}

/** Where every call has its result, the model call after them is announced together with the last of them. */
export function announceNext(session: DriveSession): void {
  const next = decide(session.log.state, session.limits);
  // A conversation that has to be compacted is announced after that.
  if (next.kind !== 'call_model' || next.announced || mustCompact(session)) return;
  // Nor is one before which the model is to read what its user has said meanwhile.
  if (session.log.state.queued?.mode === 'steer') return;
  const point = mark(session.log);
  const { step } = session;
  appendEvent(session.log, ...completeCallBatch(session.log.state));
  announce(session, next);
  reserveCall(session, next);
  session.uncommitted.reconsider = () => {
    if (session.log.state.queued?.mode !== 'steer') return;
    rewind(session.log, point);
    session.step = step;
  };
}
