/** `metadata.key=value` or `metadata[key]=value` in a query: matches objects with all the named values. */
import { z } from 'zod';

/** In the first form a key may have any characters; the second is `deepObject` of OpenAPI, which generated clients send. */
const NAMED = /^metadata(?:\.(?<dotted>.*)|\[(?<deep>.*)\])$/s;

/** For schemas of queries that take it. */
export const metadataFilter = {
  metadata: z
    .record(z.string().min(1), z.string())
    .optional()
    .describe('`metadata[key]=value`, or `metadata.key=value`: only what has this, and all others that are named.'),
};

/** Collects a query's entries about metadata in one field. */
export function withMetadata(query: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const others: [string, unknown][] = [];
  const named: [string, unknown][] = [];
  const keys = new Set<string>();
  for (const [name, value] of Object.entries(query)) {
    const { dotted, deep } = NAMED.exec(name)?.groups ?? {};
    const key = dotted ?? deep;
    // Named in both forms, it stays an unknown parameter. So does a key that no metadata has, and that zod passes over.
    if (key === undefined || key === '__proto__' || keys.has(key)) others.push([name, value]);
    else named.push([key, value]);
    if (key !== undefined) keys.add(key);
  }
  return { ...Object.fromEntries(others), ...(named.length > 0 && { metadata: Object.fromEntries(named) }) };
}
