/** What checks of a turn's answers mean for the run. */
import type { RunEvent } from './events.ts';
import type { Reading } from './output-format.ts';

/** The answer that ends a turn. */
export interface FinalAnswer {
  ordinal: number;
  stopReason: string;
  /** How its value is read, once it was found to fit what its turn demands. */
  as?: Reading;
}

/** An answer that does not fit what its turn demands. */
export interface Misfit {
  /** Answers of the turn that did not, this one included. */
  answers: number;
  /** The model has had its chances. */
  last: boolean;
  message: string;
}

/** What was found when the turn's last answer was looked at. */
export interface Reflection {
  /** Answers of the turn that were looked at. */
  answers: number;
  /** The turn ends with this one. */
  last: boolean;
}

interface Answering {
  answer: FinalAnswer | null;
  misfit?: Misfit;
  reflection?: Reflection;
}

type Checked = Extract<RunEvent, { type: 'answer.validated' | 'answer.rejected' }>;

/** The turn, and the length of the conversation, after the check of an answer. */
export function checkChange<T extends Answering>(
  { turn, length }: { turn: T | null; length: number },
  { type, payload }: Checked,
): { turn: T | null; length: number } {
  if (type === 'answer.validated') {
    return { turn: turn && { ...turn, answer: turn.answer && { ...turn.answer, as: payload.as } }, length };
  }
  const { attempt: answers, last, errors } = payload;
  const message = errors.map((error) => error.message).join('; ');
  return { turn: turn && { ...turn, answer: null, misfit: { answers, last, message } }, length: payload.length };
}

/** The turn, and the length of the conversation, after reflection on an answer. */
export function reflectionChange<T extends Answering>(
  turn: T | null,
  { payload }: Extract<RunEvent, { type: 'reflection.completed' }>,
): { turn: T | null; length: number } {
  const { attempt: answers, last, length } = payload;
  return { turn: turn && { ...turn, ...(!last && { answer: null }), reflection: { answers, last } }, length };
}
