/** Events of checks on answers. */
import { z } from 'zod';
import { READINGS } from '../output-format.ts';
import { count, defineEvent } from './event.ts';

export const CHECK_EVENTS = {
  /** The final answer fits the schemas of its turn. Follows the answer. */
  'answer.validated': defineEvent(1, {
    ordinal: count,
    /** Answers of the turn that were checked, this one included. */
    attempt: z.int().min(1),
    as: z.enum(READINGS),
  }),
  /** The answer does not fit. The model is told in a message, with which the conversation has `length` messages, or has no retries left. */
  'answer.rejected': defineEvent(1, {
    ordinal: count,
    attempt: z.int().min(1),
    errors: z.array(z.object({ path: z.string(), message: z.string() })),
    last: z.boolean(),
    length: count,
  }),
  /**
   * A model has compared an answer with the request; `meets_criteria` is null if it could not. `last`: the turn ends with the
   * answer anyway. Otherwise a message tells the model of the gaps; with it the conversation has `length` messages.
   */
  'reflection.completed': defineEvent(1, {
    ordinal: count,
    /** Answers of the turn that were reviewed, this one included. */
    attempt: z.int().min(1),
    meets_criteria: z.boolean().nullable(),
    gaps: z.array(z.string()),
    last: z.boolean(),
    length: count,
  }),
} as const;
