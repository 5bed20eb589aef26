/**
 * Writes test/fixtures/event-schemas.json and, as test/fixtures/logs/version-N.json, a log with one event of each type and
 * some like those of real runs, with the states that they fold to. Run it (`npx tsx test/support/make-log-fixture.ts N`)
 * with a new number when a type is added or its version raised; what was released is never written again.
 */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { fixedId } from '../../core/ids.ts';
import { EVENT_TYPES, EVENTS, readEvent, type EventType } from '../../core/events.ts';
import { foldAll } from '../../core/state.ts';
import { ROOT } from './repository.ts';
import { schemaOf, type SchemaFixture } from './event-schema.ts';
import { simulate } from './simulated-driver.ts';

type Row = Parameters<typeof readEvent>[0];
type JsonSchema = Record<string, unknown>;

const TAPES = [
  [7, 3, 1, 4, 6, 2, 5, 7, 7, 1, 0, 3, 6, 6, 2, 1, 4],
  [6, 6, 6, 6, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2],
  [6, 1, 2, 2, 1, 3, 6, 2, 0, 0, 1, 2, 3, 3, 3, 3, 1],
];
const LIMITS = { maxSteps: 5, turnTimeoutMs: 60_000, onUnknown: 'ask' as const };
const AT = '2026-11-22T00:00:00.000Z';

const FIXTURES = new URL('test/fixtures/', ROOT);

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const number = process.argv[2];
  assert.match(number ?? '', /^[1-9]\d*$/, 'which number?');
  const logs = [{ name: 'one of each', events: oneOfEach() }, ...simulated()];
  const withStates = logs.map((log) => ({ ...log, state: foldAll(null, log.events.map(readEvent)) }));
  writeFileSync(new URL(`logs/version-${number}.json`, FIXTURES), `${JSON.stringify({ logs: withStates }, null, 1)}\n`);
  const schemas = new URL('event-schemas.json', FIXTURES);
  const known = JSON.parse(readFileSync(schemas, 'utf8')) as SchemaFixture;
  writeFileSync(schemas, `${JSON.stringify(withCurrent(known), null, 1)}\n`);
}

/** The schemas of all versions so far; one that is there stays as it is. */
function withCurrent(known: SchemaFixture): SchemaFixture {
  const types = EVENT_TYPES.map((type) => [type, { [EVENTS[type].version]: schemaOf(type), ...known[type] }] as const);
  return { ...known, ...Object.fromEntries(types) };
}

function oneOfEach(): Row[] {
  const first: EventType[] = ['run.created', 'turn.started', 'tool.requested'];
  const types = [...first, ...EVENT_TYPES.filter((type) => !first.includes(type))];
  return types.map((type, index) => ({
    seq: index + 1,
    type,
    schema_version: EVENTS[type].version,
    turn_id: fixedId('turn'),
    step: 1,
    actor: 'worker',
    payload: EVENTS[type].payload.parse(sampleOf(schemaOf(type), type)),
    occurred_at: AT,
  }));
}

function simulated(): { name: string; events: Row[] }[] {
  return TAPES.map((tape, index) => ({
    name: `a run like others, ${index + 1}`,
    events: simulate(tape, LIMITS, index === 1).events.map(({ turn_id = null, step = null, ...event }) => {
      return { ...event, turn_id, step, schema_version: EVENTS[event.type].version };
    }),
  }));
}

/** A value that fits a schema, with all its optional fields. */
function sampleOf(schema: JsonSchema, name: string): unknown {
  if ('const' in schema) return schema['const'];
  const choices = (schema['enum'] ?? schema['anyOf'] ?? schema['oneOf']) as JsonSchema[] | undefined;
  if (schema['enum']) return choices?.[0];
  if (choices) return sampleOf(choices.find(({ type }) => type !== 'null') ?? {}, name);
  const type = Array.isArray(schema['type']) ? (schema['type'] as unknown[])[0] : schema['type'];
  switch (type) {
    case 'object': {
      const properties = Object.entries((schema['properties'] ?? {}) as Record<string, JsonSchema>);
      return Object.fromEntries(properties.map(([key, value]) => [key, sampleOf(value, key)]));
    }
    case 'array':
      return [sampleOf((schema['items'] ?? {}) as JsonSchema, name)];
    case 'string':
      return textOf(schema, name);
    case 'integer':
    case 'number':
      return Math.max(1, Number(schema['minimum'] ?? 1));
    case 'boolean':
      return false;
    case 'null':
      return null;
    default:
      return { free: 'data' };
  }
}

function textOf({ format }: JsonSchema, name: string): string {
  if (format === 'uuid') return fixedId(name);
  if (format === 'date-time') return AT;
  return /usd|cost/.test(name) ? '0.001' : name;
}
