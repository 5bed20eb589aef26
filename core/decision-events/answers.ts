/** Events of the check of an answer, which follow `recordAnswer`. */
import type { FieldError } from '../errors.ts';
import type { NewEvent } from '../events.ts';
import type { Reading } from '../output-format.ts';
import type { RunState } from '../state.ts';

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

/** The number of an answer of the turn that is being checked, from 1. */
export function attemptOf({ turn }: RunState): number {
  return (turn?.misfit?.answers ?? 0) + 1;
}
