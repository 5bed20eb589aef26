/** The payload schema of an event type as JSON, without the words that describe it. */
import { z } from 'zod';
import { EVENTS, type EventType } from '../../core/events.ts';

/** By type and version. */
export type SchemaFixture = Record<string, Record<string, unknown>>;

type JsonSchema = Record<string, unknown>;

/** What this build takes as the payload of a type. */
export function schemaOf(type: EventType): JsonSchema {
  const made = z.toJSONSchema(EVENTS[type].payload, { io: 'input', unrepresentable: 'any', reused: 'inline' });
  const { $defs = {}, $schema: _, ...own } = made as JsonSchema & { $defs?: Record<string, JsonSchema> };
  return plain(own, $defs) as JsonSchema;
}

/** Every named schema in its place, and without descriptions. */
function plain(value: unknown, named: Record<string, JsonSchema>): unknown {
  if (Array.isArray(value)) return value.map((item) => plain(item, named));
  if (typeof value !== 'object' || value === null) return value;
  if ('$ref' in value && typeof value.$ref === 'string') {
    const { id: _, ...schema } = named[value.$ref.slice('#/$defs/'.length)] ?? {};
    return plain(schema, named);
  }
  const kept = Object.entries(value).filter(([name, of]) => !(name === 'description' && typeof of === 'string'));
  return Object.fromEntries(kept.map(([name, of]) => [name, plain(of, named)]));
}
