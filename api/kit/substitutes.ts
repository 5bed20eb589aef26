/** Skills of another name that made an agent fit. */
import { z } from 'zod';

export const substitutes = z
  .array(z.strictObject({ required: z.string(), skill: z.string(), similarity: z.number() }))
  .describe('Skills of the agent that stand for required ones of another name, and how similar the names are.');
