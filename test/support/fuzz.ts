/** Requests out of `/openapi.json`, valid ones and others, by chance from a seed. */
import type { Random } from '../../scripts/torture/random.ts';

export interface FuzzRequest {
  method: string;
  /** With its query. */
  path: string;
  headers: Record<string, string>;
  body: string | undefined;
}

interface Schema {
  $ref?: string;
  const?: unknown;
  enum?: unknown[];
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  type?: string | string[];
  format?: string;
  minimum?: number;
  maximum?: number;
  minItems?: number;
  maxItems?: number;
  items?: Schema;
  required?: string[];
  properties?: Record<string, Schema>;
  additionalProperties?: boolean | Schema;
}

interface Operation {
  parameters: { name: string; in: string; required: boolean; schema: Schema }[];
  requestBody?: { content: Record<string, { schema: Schema }> };
}

export interface OpenApi {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema> };
}

/** What text may be: nothing of it is a program, or a host that is anybody's. */
const TEXTS = [
  'a',
  'name',
  'x y',
  '',
  '0',
  '-1',
  'null',
  '1.0.0',
  'true',
  '☃',
  'é',
  '*',
  '{{secret:a}}',
  'run.created',
] as const;
const ODD_TEXTS = [
  '\u0000',
  '\ud800',
  '%00',
  '%',
  "'; --",
  '{{',
  '__proto__',
  'constructor',
  '\n',
  'x'.repeat(70_000),
] as const;
const ODD_VALUES = [null, true, -1, 0, 1.5, 1e308, 2 ** 53, '', [], {}, [[]], '\u0000', { a: { b: [] } }] as const;
const DEPTH = 5;

interface Maker {
  random: Random;
  document: OpenApi;
  /** Ids that answers have had. */
  ids: readonly string[];
  /** Objects have every field that they may have. */
  isWhole?: boolean;
}

interface Asked {
  path: string;
  method: string;
  operation: Operation;
}

function operationsOf({ paths }: OpenApi): Asked[] {
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  );
}

/** The next request: any operation, most often as its schemas have it, with ids that there are. */
export function nextRequest(maker: Maker): FuzzRequest {
  const { random, document } = maker;
  const operations = operationsOf(document);
  const { path, method, operation } = operations[random.whole(0, operations.length - 1)] ?? never();
  const query = new URLSearchParams();
  let filled = path;
  for (const { name, in: place, required, schema } of operation.parameters) {
    if (place === 'header' || (!required && random.chance(0.6))) continue;
    const value = random.chance(0.3) ? oddText(random) : textOf(make(maker, schema, 0));
    if (place === 'path') filled = filled.replace(`{${name}}`, () => encode(value, random));
    else query.append(name, value.toWellFormed());
  }
  const tail = query.size > 0 ? `?${query.toString()}` : '';
  return { method: method.toUpperCase(), path: filled + tail, ...contentOf(maker, operation) };
}

/**
 * One request for each place of each operation that takes text: path, query, and every text of a body that has all its
 * fields. That text holds a NUL, which no text in the database can.
 */
export function requestsWithNul(maker: Maker): FuzzRequest[] {
  return operationsOf(maker.document).flatMap((asked) => [...inUrl(maker, asked), ...inBody(maker, asked)]);
}

function inUrl({ random, ids }: Maker, { path, method, operation }: Asked): FuzzRequest[] {
  const base = { method: method.toUpperCase(), headers: ASYNC, body: undefined };
  const places = operation.parameters.filter((parameter) => parameter.in !== 'header');
  return places.map(({ name, in: place }) => {
    if (place === 'path')
      return { ...base, path: fill(path, (id) => (id === name ? WITH_NUL : random.pick(['x', ...ids]))) };
    return { ...base, path: `${fill(path, () => random.pick(['x', ...ids]))}?${name}=${WITH_NUL}` };
  });
}

function inBody(maker: Maker, { path, method, operation }: Asked): FuzzRequest[] {
  const schema = operation.requestBody?.content['application/json']?.schema;
  if (!schema) return [];
  const headers = { ...ASYNC, 'content-type': 'application/json' };
  return [...textsSpoilt(make({ ...maker, isWhole: true }, schema, 0))].map((spoilt) => ({
    method: method.toUpperCase(),
    path: fill(path, () => maker.random.pick(['x', ...maker.ids])),
    headers,
    body: JSON.stringify(spoilt),
  }));
}

function fill(path: string, valueOf: (name: string) => string): string {
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string) => valueOf(name));
}

const ASYNC = { prefer: 'respond-async' };
const WITH_NUL = 'a%00b';

/** The value once for each text in it, which has a NUL there. */
function* textsSpoilt(value: unknown): Generator {
  if (typeof value === 'string') yield `${value}\u0000`;
  if (typeof value !== 'object' || value === null) return;
  for (const [key, inner] of Object.entries(value)) {
    for (const spoilt of textsSpoilt(inner)) {
      yield Array.isArray(value) ? value.with(Number(key), spoilt) : { ...value, [key]: spoilt };
    }
  }
}

function contentOf(maker: Maker, { requestBody }: Operation): Pick<FuzzRequest, 'headers' | 'body'> {
  const { random } = maker;
  const headers: Record<string, string> = { prefer: 'respond-async' };
  if (random.chance(0.1)) headers['idempotency-key'] = random.pick(['again', 'é', 'x'.repeat(300), '0']);
  if (random.chance(0.05)) headers['last-event-id'] = random.pick(['0', '-1', 'x', '9'.repeat(30)]);
  if (random.chance(0.05)) headers['x-workspace-id'] = random.pick(['x', ...maker.ids]);
  const schema = requestBody?.content['application/json']?.schema;
  if (!schema) return { headers, body: undefined };
  headers['content-type'] = 'application/json';
  const value = make(maker, schema, 0);
  const text = JSON.stringify(random.chance(0.35) ? spoil(value, random) : value);
  if (random.chance(0.03)) return { headers, body: text.slice(0, random.whole(0, text.length)) };
  if (random.chance(0.03)) headers['content-encoding'] = random.pick(['gzip', 'deflate', 'br', 'zstd']);
  if (random.chance(0.02)) headers['content-type'] = random.pick(['text/plain', 'application/json; charset=x', 'x']);
  return { headers, body: text };
}

function make(maker: Maker, schema: Schema, depth: number): unknown {
  const { random, document } = maker;
  if (schema.$ref !== undefined) {
    return make(maker, document.components.schemas[schema.$ref.split('/').at(-1) ?? ''] ?? {}, depth + 1);
  }
  if ('const' in schema) return schema.const;
  if (schema.enum) return schema.enum[random.whole(0, schema.enum.length - 1)];
  const branches = schema.anyOf ?? schema.oneOf;
  if (branches) return make(maker, branches[random.whole(0, branches.length - 1)] ?? {}, depth + 1);
  const parts = (schema.allOf ?? []).map((part) => make(maker, part, depth));
  if (parts.length > 0) return Object.assign({}, ...parts);
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  switch (type) {
    case 'object':
      return makeObject(maker, schema, depth);
    case 'array': {
      const length = depth > DEPTH ? 0 : random.whole(schema.minItems ?? 0, Math.min(schema.maxItems ?? 3, 3));
      return Array.from({ length }, () => make(maker, schema.items ?? {}, depth + 1));
    }
    case 'integer':
    case 'number':
      return random.whole(schema.minimum ?? -5, Math.min(schema.maximum ?? 100, 100_000));
    case 'boolean':
      return random.chance(0.5);
    case 'null':
      return null;
    case 'string':
      return makeText(maker, schema);
    default:
      return random.pick(ODD_VALUES);
  }
}

function makeObject(maker: Maker, schema: Schema, depth: number): Record<string, unknown> {
  const chosen = Object.entries(schema.properties ?? {}).filter(
    ([name]) =>
      schema.required?.includes(name) === true ||
      (depth < DEPTH && (maker.isWhole === true || maker.random.chance(0.3))),
  );
  const made = chosen.map(([name, inner]): [string, unknown] => [name, make(maker, inner, depth + 1)]);
  if (typeof schema.additionalProperties === 'object' && depth < DEPTH && maker.random.chance(0.5)) {
    made.push([maker.random.pick(TEXTS), make(maker, schema.additionalProperties, depth + 1)]);
  }
  return Object.fromEntries(made);
}

function makeText({ random, ids }: Maker, { format }: Schema): string {
  if (format === 'uuid') return random.pick(['01a00000-0000-7000-8000-000000000000', ...ids]);
  if (format === 'date-time') return random.pick(['2026-01-01T00:00:00Z', '9999-12-31T23:59:59Z']);
  // Nobody listens there.
  if (format === 'uri') return 'http://127.0.0.1:1/x';
  if (random.chance(0.1) && ids.length > 0) return random.pick(['x', ...ids]);
  return random.chance(0.05) ? random.pick(ODD_TEXTS) : random.pick(TEXTS);
}

/** NUL above all: no text in the database can hold it. */
function oddText(random: Random): string {
  return random.chance(0.3) ? 'a\u0000b' : random.pick(ODD_TEXTS);
}

/** The value with something else in one place of it. */
function spoil(value: unknown, random: Random): unknown {
  if (typeof value !== 'object' || value === null || random.chance(0.2)) return random.pick(ODD_VALUES);
  const keys = Object.keys(value);
  if (keys.length === 0 || random.chance(0.15)) return { ...value, [random.pick(ODD_TEXTS)]: random.pick(ODD_VALUES) };
  const key = keys[random.whole(0, keys.length - 1)] ?? '';
  const entries = Object.entries(value).flatMap(([name, inner]): [string, unknown][] => {
    if (name !== key) return [[name, inner]];
    return random.chance(0.2) ? [] : [[name, spoil(inner, random)]];
  });
  return Array.isArray(value) ? entries.map(([, inner]) => inner) : Object.fromEntries(entries);
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** As clients send it, or as it stands. */
function encode(text: string, random: Random): string {
  const encoded = encodeURIComponent(text.toWellFormed());
  return encoded !== '' && random.chance(0.1) ? `${encoded}%` : encoded || '%20';
}

function never(): never {
  throw new Error('a document without operations');
}
