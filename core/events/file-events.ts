import { z } from 'zod';
import { count, defineEvent, problem, uuid } from './event.ts';

/** The source: a part of a call's result, or the provider's own tools. */
const made = { tool_call_id: uuid.optional(), provider: z.string().optional() };

/** Events of files that a run made. Contents and names are stored elsewhere. */
export const FILE_EVENTS = {
  /** It was stored as a file. */
  'file.stored': defineEvent(1, {
    file_id: uuid,
    ...made,
    mime_type: z.string(),
    size: count,
  }),
  /** It could not be stored: the result keeps it inline, or it stays with the provider. */
  'file.failed': defineEvent(1, { ...made, error: problem }),
} as const;
