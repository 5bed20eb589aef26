/** How checks of a turn's answers change the run's state. */
import type { RunEvent } from './events.ts';
import type { Reading } from './output-format.ts';

/** The answer that ends a turn. */
export interface FinalAnswer {
  ordinal: number;
  stopReason: string;
  /** How to read its value, once the answer fits the schemas of the turn. */
  as?: Reading;
}

/** An answer that does not fit the schemas of its turn. */
export interface Misfit {
  /** Misfits of the turn so far, this one included. */
  answers: number;
  /** No retries are left. */
  last: boolean;
  message: string;
}

/** The result of reflection on the turn's last answer. */
export interface Reflection {
  /** Reflections of the turn so far. */
  answers: number;
  /** The turn ends with this answer. */
  last: boolean;
}

interface Answering {
  answer: FinalAnswer | null;
  misfit?: Misfit;
  reflection?: Reflection;
}

type Checked = Extract<RunEvent, { type: 'answer.validated' | 'answer.rejected' }>;

/** Applies the check of an answer to the turn and the length of the conversation. */
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

/** Applies reflection on an answer to the turn and the length of the conversation. */
export function reflectionChange<T extends Answering>(
  turn: T | null,
  { payload }: Extract<RunEvent, { type: 'reflection.completed' }>,
): { turn: T | null; length: number } {
  const { attempt: answers, last, length } = payload;
  return { turn: turn && { ...turn, ...(!last && { answer: null }), reflection: { answers, last } }, length };
}
