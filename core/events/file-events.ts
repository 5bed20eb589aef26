import { z } from 'zod';
import { count, defineEvent, problem, uuid } from './event.ts';

/** Events of files that a run has made. Their contents and names are elsewhere. */
export const FILE_EVENTS = {
  /** A part of a call's result is kept as a file. */
  'file.stored': defineEvent(1, {
    file_id: uuid,
    tool_call_id: uuid,
    mime_type: z.string(),
    size: count,
  }),
  /** It could not be: the result has it as it came. */
  'file.failed': defineEvent(1, { tool_call_id: uuid, error: problem }),
} as const;
