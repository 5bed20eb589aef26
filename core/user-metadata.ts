/** Clients' own metadata on agents, threads, runs and turns, by which they can search. */
import { z } from 'zod';

const MOST_KEYS = 50;
const MAX_KEY = 100;
const MAX_VALUE = 1000;

export const userMetadata = z
  .record(z.string().min(1).max(MAX_KEY), z.string().max(MAX_VALUE))
  .refine((metadata) => Object.keys(metadata).length <= MOST_KEYS, { message: `must have at most ${MOST_KEYS} keys` })
  .describe(`The client's own: ${MOST_KEYS} texts at most, by keys.`);

/** A client's own id for an object. */
export const externalId = z.string().min(1).max(200);
