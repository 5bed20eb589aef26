/** Events of what a run remembers. */
import { z } from 'zod';
import { MEMORY_ORIGINS, MEMORY_STATUSES, MEMORY_TYPES } from '../memory/entry.ts';
import { count, defineEvent, uuid } from './event.ts';

export const MEMORY_EVENTS = {
  /** What the turn was given of the agent's memory, before its first model call; with nothing, too. Its text is what the model reads. */
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
        /** Where it did not hold: since when no more, or from when on. */
        validity: z.object({ state: z.enum(['ended', 'not_yet']), at: z.iso.datetime() }).optional(),
      }),
    ),
    /** The message that they stand with. */
    ordinal: count,
    /** In a replay: as the record has it. */
    recorded: z.boolean().optional(),
  }),
} as const;
