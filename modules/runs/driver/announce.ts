/** Before a model call: the log says that it is made, and what it may use of its budgets is set aside, in one commit. */
import { announceModelCall, reachStepLimit } from '../../../core/decision-events/model-calls.ts';
import { completePlan } from '../../../core/decision-events/plans.ts';
import { decide, type Decision } from '../../../core/decide.ts';
import { modelsFor } from './ask-model.ts';
import { messagesFor } from '../../run-log/conversation.ts';
import { appendEvent } from '../../run-log/run-log.ts';
import { contextTokens, toRequest } from './build-request.ts';
import { saveCheckpointIfDue } from './save-checkpoint.ts';
import { reserve } from '../../budgets/hold-to-budget.ts';
import { newStep, type DriveSession } from './session.ts';

type CallModel = Extract<Decision, { kind: 'call_model' }>;

/** Says in the log that the model is called next, in the commit before the call: a new step begins. */
export function announce(session: DriveSession, call: CallModel): void {
  const { log, limits, definition } = session;
  // Results that others have written, workers or clients, are in no checkpoint yet.
  if (log.state.calls.length > 0 && !log.pending.checkpoint) saveCheckpointIfDue(session);
  appendEvent(log, ...reachStepLimit(log.state, call, limits.maxSteps));
  const { provider, model, rateLimiter, rates } = modelsFor(session)[0];
  session.step = newStep();
  // A model with rate limits is acquired in a step of its own.
  log.pending.rateLimiter = rates ? null : rateLimiter;
  const { length } = log.messages;
  const estimated_tokens = messagesFor(log.messages, contextTokens(definition)).tokens;
  appendEvent(log, announceModelCall(log.state, call, { provider, model, length, estimated_tokens }));
}

/** Sets aside, in the commit before the call, what it may use of its budgets. */
export function reserveCall(session: DriveSession, call: Pick<CallModel, 'step' | 'toolChoice'>): void {
  const { provider, model } = modelsFor(session)[0];
  const request = () => toRequest(session, { model, toolChoice: call.toolChoice });
  reserve(session, { step: call.step, provider, model, request });
}

/** Where every call has its result, the model call after them is announced together with the last of them. */
export function announceNext(session: DriveSession): void {
  const next = decide(session.log.state, session.limits);
  if (next.kind !== 'call_model' || next.announced) return;
  appendEvent(session.log, ...completePlan(session.log.state));
  announce(session, next);
  reserveCall(session, next);
}
