/** Before a model call: the log says that it is made, and what it may use of its budgets is set aside, in one commit. */
import { decide, type Decision } from '../../../core/decide.ts';
import { modelsFor } from './ask-model.ts';
import { messagesFor } from '../../run-log/conversation.ts';
import { appendEvent } from '../../run-log/run-log.ts';
import { contextTokens } from './build-request.ts';
import { reserve } from './reservation.ts';
import { completePlan } from './propose-plan.ts';
import { newStep, type DriveSession } from './session.ts';

type CallModel = Extract<Decision, { kind: 'call_model' }>;

/** Says in the log that the model is called next, in the commit before the call: a new step begins. */
export function announce(session: DriveSession, call: CallModel, length: number): void {
  session.step = newStep();
  const turn_id = session.log.state.turn?.id;
  if (call.last && !session.log.state.turn?.maxStepsReached) {
    appendEvent(session.log, {
      type: 'run.max_steps_reached',
      actor: 'system',
      turn_id,
      payload: { limit: session.limits.maxSteps },
    });
  }
  const { provider, model, rateLimiter, rates } = modelsFor(session)[0];
  // One with rates is asked in a step of its own.
  session.log.pending.rateLimiter = rates ? null : rateLimiter;
  appendEvent(session.log, {
    type: 'model.called',
    actor: 'agent',
    turn_id,
    step: call.step,
    payload: {
      provider,
      model,
      length,
      estimated_tokens: messagesFor(session.log.messages, contextTokens(session.definition)).tokens,
      tool_choice: call.toolChoice,
    },
  });
}

/** Sets aside, in the commit before the call, what it may use of its budgets. */
export function reserveCall(session: DriveSession, call: Pick<CallModel, 'step' | 'toolChoice'>): void {
  const { provider, model } = modelsFor(session)[0];
  reserve(session, { ...call, provider, model });
}

/** Where every call has its result, the model call after them is announced together with the last of them. */
export function announceNext(session: DriveSession): void {
  const next = decide(session.log.state, session.limits);
  if (next.kind !== 'call_model' || next.announced) return;
  completePlan(session);
  announce(session, next, session.log.messages.length);
  reserveCall(session, next);
}
