/** Events of checks of an answer. They follow those of `recordAnswer`. */
import type { FieldError } from '../errors.ts';
import type { NewEvent } from '../events.ts';
import type { Reading } from '../output-format.ts';
import type { RunState } from '../state.ts';
import { changeStatus } from './turns.ts';

interface Checked {
  step: number;
  ordinal: number;
}

/** The answer fits its schemas. */
export function validateAnswer(state: RunState, { step, ...checked }: Checked & { as: Reading }): NewEvent {
  const payload = { ...checked, attempt: attemptOf(state) };
  return { type: 'answer.validated', actor: 'system', turn_id: state.turn?.id, step, payload };
}

/** The answer does not fit. `length`: of the conversation, including the message to the model if it is asked again. */
export function rejectAnswer(
  state: RunState,
  { step, ...checked }: Checked & { errors: FieldError[]; last: boolean; length: number },
): NewEvent {
  const payload = { ...checked, attempt: attemptOf(state) };
  return { type: 'answer.rejected', actor: 'system', turn_id: state.turn?.id, step, payload };
}

/** A model has reviewed an answer. Gaps send the run back to planning. `length`: as above. */
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

/** How many answers of the turn were reviewed so far. */
export function reflectionsOf({ turn }: RunState): number {
  return turn?.reflection?.answers ?? 0;
}

/** The number, from 1, of the turn's answer that is being checked. */
export function attemptOf({ turn }: RunState): number {
  return (turn?.misfit?.answers ?? 0) + 1;
}
