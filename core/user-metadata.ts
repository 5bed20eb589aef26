/** What clients keep with their agents, threads, runs and turns, and find them by. */
import { z } from 'zod';

const MOST_KEYS = 50;
const MAX_KEY = 100;
const MAX_VALUE = 1000;

export const userMetadata = z
  .record(z.string().min(1).max(MAX_KEY), z.string().max(MAX_VALUE))
  .refine((metadata) => Object.keys(metadata).length <= MOST_KEYS, { message: `must have at most ${MOST_KEYS} keys` })
  .describe(`The client's own: ${MOST_KEYS} texts at most, by keys.`);

/** What a client calls something of its own. */
export const externalId = z.string().min(1).max(200);
