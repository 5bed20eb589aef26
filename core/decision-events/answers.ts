/** Events of the checks of an answer, which follow `recordAnswer`. */
import type { FieldError } from '../errors.ts';
import type { NewEvent } from '../events.ts';
import type { Reading } from '../output-format.ts';
import type { RunState } from '../state.ts';
import { changeStatus } from './turns.ts';

interface Checked {
  step: number;
  ordinal: number;
}

/** The answer fits. */
export function validateAnswer(state: RunState, { step, ...checked }: Checked & { as: Reading }): NewEvent {
  const payload = { ...checked, attempt: attemptOf(state) };
  return { type: 'answer.validated', actor: 'system', turn_id: state.turn?.id, step, payload };
}

/** It does not. `length`: that of the conversation with what the model is told, where it is asked again. */
export function rejectAnswer(
  state: RunState,
  { step, ...checked }: Checked & { errors: FieldError[]; last: boolean; length: number },
): NewEvent {
  const payload = { ...checked, attempt: attemptOf(state) };
  return { type: 'answer.rejected', actor: 'system', turn_id: state.turn?.id, step, payload };
}

/** A model has looked at an answer. One that lacks something sends the run back to planning. `length`: as above. */
export function completeReflection(
  state: RunState,
  { step, ...found }: Checked & Pick<ReflectionPayload, 'meets_criteria' | 'gaps' | 'last' | 'length'>,
): NewEvent[] {
  const attempt = reflectionsOf(state) + 1;
  const by = { actor: 'system' as const, turn_id: state.turn?.id, step };
  const completed: NewEvent = { ...by, type: 'reflection.completed', payload: { ...found, attempt } };
  if (found.last) return [completed];
  const begun = state.status === 'reflecting' ? [] : (['reflecting'] as const);
  return [completed, ...changeStatus(state, ...begun, 'planning', 'executing')];
}

type ReflectionPayload = Extract<NewEvent, { type: 'reflection.completed' }>['payload'];

/** The answers of the turn that were looked at so far. */
export function reflectionsOf({ turn }: RunState): number {
  return turn?.reflection?.answers ?? 0;
}

/** The number of an answer of the turn that is being checked, from 1. */
export function attemptOf({ turn }: RunState): number {
  return (turn?.misfit?.answers ?? 0) + 1;
}
