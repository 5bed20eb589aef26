/** Events of checks on answers. */
import { z } from 'zod';
import { READINGS } from '../output-format.ts';
import { count, defineEvent } from './event.ts';

export const CHECK_EVENTS = {
  /** The final answer fits what its turn demands. Follows the answer. */
  'answer.validated': defineEvent(1, {
    ordinal: count,
    /** Answers of the turn that were checked, this one included. */
    attempt: z.int().min(1),
    as: z.enum(READINGS),
  }),
  /** It does not: the model is told, by a message after which the conversation has `length`, or has had its chances. */
  'answer.rejected': defineEvent(1, {
    ordinal: count,
    attempt: z.int().min(1),
    errors: z.array(z.object({ path: z.string(), message: z.string() })),
    last: z.boolean(),
    length: count,
  }),
  /**
   * A model has looked at an answer, and at what was asked for; `meets_criteria` is null where none could say. `last`: the turn ends with
   * it all the same. Else the model is told of the gaps, by a message after which the conversation has `length`.
   */
  'reflection.completed': defineEvent(1, {
    ordinal: count,
    /** Answers of the turn that were looked at, this one included. */
    attempt: z.int().min(1),
    meets_criteria: z.boolean().nullable(),
    gaps: z.array(z.string()),
    last: z.boolean(),
    length: count,
  }),
} as const;
