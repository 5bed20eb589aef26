/** Events of a run's memories. */
import { z } from 'zod';
import { MEMORY_ORIGINS, MEMORY_STATUSES, MEMORY_TYPES } from '../memory/entry.ts';
import { count, defineEvent, uuid } from './event.ts';

export const MEMORY_EVENTS = {
  /** The memories given to a turn before its first model call; also written if there are none. The text is what the model reads. */
  'memory.retrieved': defineEvent(1, {
    entries: z.array(
      z.object({
        id: uuid,
        version: count,
        score: z.number(),
        memory_type: z.enum(MEMORY_TYPES),
        origin: z.enum(MEMORY_ORIGINS),
        status: z.enum(MEMORY_STATUSES),
        trusted: z.boolean(),
        profile: z.boolean(),
        at: z.iso.datetime(),
        content: z.string(),
        /** For an entry that does not hold: when it ended, or will begin. */
        validity: z.object({ state: z.enum(['ended', 'not_yet']), at: z.iso.datetime() }).optional(),
      }),
    ),
    /** The message that includes the memories. */
    ordinal: count,
    /** In a replay: taken from the record. */
    recorded: z.boolean().optional(),
  }),
} as const;
