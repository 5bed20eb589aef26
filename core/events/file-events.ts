import { z } from 'zod';
import { count, defineEvent, problem, uuid } from './event.ts';

/** Of what: a part of a call's result, or what the provider's own tools have made in an answer. */
const made = { tool_call_id: uuid.optional(), provider: z.string().optional() };

/** Events of files that a run has made. Their contents and names are elsewhere. */
export const FILE_EVENTS = {
  /** It is kept as a file. */
  'file.stored': defineEvent(1, {
    file_id: uuid,
    ...made,
    mime_type: z.string(),
    size: count,
  }),
  /** It could not be: the result has it as it came, or it stays with the provider. */
  'file.failed': defineEvent(1, { ...made, error: problem }),
} as const;
