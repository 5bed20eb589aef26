/** `metadata.key=value` in a query: matches objects with all the named values. */
import { z } from 'zod';

const PREFIX = 'metadata.';

/** For schemas of queries that take it. */
export const metadataFilter = {
  metadata: z
    .record(z.string().min(1), z.string())
    .optional()
    .describe('`metadata.key=value`: only what has this, and all others that are named.'),
};

/** Collects a query's `metadata.` entries in one field. */
export function withMetadata(query: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const named = Object.entries(query).filter(([key]) => key.startsWith(PREFIX));
  if (named.length === 0) return { ...query };
  const others = Object.entries(query).filter(([key]) => !key.startsWith(PREFIX));
  const metadata = Object.fromEntries(named.map(([key, value]) => [key.slice(PREFIX.length), value]));
  return { ...Object.fromEntries(others), metadata };
}
