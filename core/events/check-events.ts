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
} as const;
