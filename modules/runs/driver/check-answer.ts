/** Checks a turn's final answer against the format it demands; an answer that does not fit goes back to the model. */
import { textOf, type AssistantBlock } from '../../../core/content.ts';
import { attemptOf, rejectAnswer, validateAnswer } from '../../../core/decision-events/answers.ts';
import { checkAnswer, correctionOf, jsonOf, outputFormat, type CheckedAnswer } from '../../../core/output-format.ts';
import { findRounded } from '../../../lib/json-integers.ts';
import { appendEvent, appendMessage, lengthOf } from '../../run-log/run-log.ts';
import type { Drive } from './drive-state.ts';

/** To be called after the answer's own event. Does nothing if the turn goes on, or takes any answer. */
export function checkFinalAnswer(
  { log, definition, context }: Drive,
  answered: { step: number; ordinal: number; content: readonly AssistantBlock[]; last?: boolean },
): void {
  const { turn } = log.state;
  const format = turn?.answer ? outputFormat(definition, turn.input.output_schema) : undefined;
  if (!turn?.answer || !format) return;
  const { step, ordinal, content } = answered;
  const text = textOf(content);
  const checked = unrounded(text, checkAnswer(text, format, context.tools.validator.together().validateAnswer));
  if (checked.fits) return appendEvent(log, validateAnswer(log.state, { step, ordinal, as: checked.as }));
  const { errors } = checked;
  const isRefusal = turn.answer.stopReason === 'refusal';
  const last = answered.last === true || isRefusal || turn.maxStepsReached || attemptOf(log.state) > format.retries;
  if (!last) {
    const correction = { type: 'text' as const, text: correctionOf(errors) };
    appendMessage(log, { role: 'user', content: [correction], outcomes: null, origin: 'drover' });
  }
  appendEvent(log, rejectAnswer(log.state, { step, ordinal, errors, last, length: lengthOf(log) }));
}

/** Refuses an answer whose value would not be what is written. */
function unrounded(text: string, checked: CheckedAnswer): CheckedAnswer {
  if (!checked.fits || checked.as !== 'json') return checked;
  const [at] = findRounded(jsonOf(text));
  if (!at) return checked;
  const message = `The integer at ${at.join('.') || 'the top'} is beyond 2^53: readers of JSON would keep its first digits only.`;
  return { fits: false, errors: [{ path: '', message }] };
}
