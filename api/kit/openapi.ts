/** `GET /openapi.json` from the routes' own schemas: OpenAPI 3.1 uses JSON Schema 2020-12. */
import { STATUS_CODES } from 'node:http';
import { z } from 'zod';
import { sha256 } from '../../core/ids.ts';
import { VERSION } from '../../core/version.ts';
import { showsEvents, type Access, type OtherContent, type Route } from './route.ts';
import { problem } from './problems.ts';

type JsonSchema = Record<string, unknown>;
type Components = Record<string, unknown>;

/**
 * Returns the document of these routes as bytes of JSON, the same to all who ask. It is made when first asked for: that
 * takes a third of a second of CPU.
 */
export function describeOnce(routes: readonly Route[]): () => Buffer {
  let made: Buffer | undefined;
  return () => (made ??= Buffer.from(JSON.stringify(openApi(routes, { title: 'Drover', version: VERSION }))));
}

/** The OpenAPI 3.1 document of these routes. Schemas with an id become components. */
export function openApi(routes: readonly Route[], info: { title: string; version: string }): Record<string, unknown> {
  const components: Components = {};
  convert(problem, 'output', components);
  const paths: Record<string, Record<string, unknown>> = {};
  for (const route of routes) {
    const path = (paths[route.path.replaceAll(/:(\w+)/g, '{$1}')] ??= {});
    path[route.method] = operationOf(route, components);
    if (route.documentsHead) path['head'] = headOf(operationOf(route, components));
  }
  return {
    openapi: '3.1.0',
    info,
    paths,
    components: {
      schemas: components,
      securitySchemes: {
        bearer: {
          type: 'http',
          scheme: 'bearer',
          description: 'An API key, or a token for one run where an operation has `x-run-token`.',
        },
      },
    },
  };
}

function operationOf(route: Route, components: Components): Record<string, unknown> {
  const tag = /^\/v1\/([a-z-]+)/.exec(route.path)?.[1] ?? 'operations';
  return {
    operationId: `${route.method}${route.path.replaceAll(/[^a-zA-Z0-9]+/g, '_')}`,
    summary: route.summary,
    tags: [tag],
    parameters: parametersOf(route, components),
    ...requestBodyOf(route, components),
    responses: responsesOf(route, components),
    ...securityOf(route.access),
    ...(route.runToken && { 'x-run-token': route.runToken }),
    ...(route.threadToken && { 'x-thread-token': route.threadToken.scope }),
  };
}

/** Every GET answers HEAD with its headers alone, whole: a range is for GET. */
function headOf({ operationId, summary, responses, ...rest }: Record<string, unknown>): Record<string, unknown> {
  const described = Object.entries(responses as Record<string, { description: string }>);
  const whole = described.filter(([status]) => status !== '206');
  return {
    ...rest,
    operationId: String(operationId).replace(/^get/, 'head'),
    summary: `${String(summary)}: the headers alone`,
    responses: Object.fromEntries(whole.map(([status, { description }]) => [status, { description }])),
  };
}

function requestBodyOf({ body, upload }: Route, components: Components): Record<string, unknown> {
  if (body) return { requestBody: { content: { 'application/json': { schema: convert(body, 'input', components) } } } };
  if (!upload) return {};
  const { properties, ...rest } = convert(upload, 'input', components);
  const file = { type: 'string', contentMediaType: 'application/octet-stream' };
  const schema = { ...rest, properties: { ...(properties as object), file }, required: ['file'] };
  return { requestBody: { required: true, content: { 'multipart/form-data': { schema } } } };
}

function securityOf(access: Access): Record<string, unknown> {
  if (access === 'open') return { security: [] };
  const scopes = access.includes(':') || access === 'admin' ? [access] : [];
  const open = access.startsWith('loopback') ? [{}] : [];
  return { security: [{ bearer: scopes }, ...open], ...(scopes.length > 0 ? { 'x-scope': access } : {}) };
}

function parametersOf(route: Route, components: Components): unknown[] {
  const inPath = [...route.path.matchAll(/:(\w+)/g)].map(([, name = '']) => ({
    name,
    in: 'path',
    required: true,
    schema: propertiesOf(route.params, components)[name] ?? { type: 'string' },
  }));
  const required = route.query === undefined ? [] : (convert(route.query, 'input', {})['required'] ?? []);
  const inQuery = Object.entries(propertiesOf(route.query, components)).map(([name, schema]) => ({
    name,
    in: 'query',
    required: Array.isArray(required) && required.includes(name),
    ...(isObject(schema) && { style: 'deepObject', explode: true }),
    schema,
  }));
  const workspace = route.access === 'open' || route.access.startsWith('loopback') ? [] : [WORKSPACE];
  const headers = [
    ...(route.idempotent === true ? [IDEMPOTENCY] : []),
    ...(route.prefers ? [PREFER] : []),
    ...(route.method === 'get' && showsEvents(route) ? [LAST_EVENT_ID] : []),
  ];
  return [...inPath, ...inQuery, ...headers, ...workspace];
}

function isObject(schema: unknown): boolean {
  return typeof schema === 'object' && schema !== null && 'type' in schema && schema.type === 'object';
}

const PREFER = {
  name: 'Prefer',
  in: 'header',
  required: false,
  description:
    'RFC 7240: `respond-async` answers 202 at once, `wait=N`, with it or without, after N seconds at most (up to 600).',
  schema: { type: 'string' },
};

const LAST_EVENT_ID = {
  name: 'Last-Event-ID',
  in: 'header',
  required: false,
  description: 'The id of the last event that the client has: what came after it is sent.',
  schema: { type: 'string' },
};

const IDEMPOTENCY = {
  name: 'Idempotency-Key',
  in: 'header',
  required: false,
  description: 'The same key and body give the first answer again, for 24 hours.',
  schema: { type: 'string', minLength: 1, maxLength: 255 },
};

const WORKSPACE = {
  name: 'X-Workspace-Id',
  in: 'header',
  required: false,
  description: 'The workspace to work in, where the key may use more than one.',
  schema: { type: 'string', format: 'uuid' },
};

/** Properties of the parsed values: in a query everything arrives as text, so the output type says more. */
function propertiesOf(schema: z.ZodType | undefined, components: Components): Record<string, unknown> {
  if (schema === undefined) return {};
  const properties = convert(schema, 'output', components)['properties'];
  return typeof properties === 'object' && properties !== null ? { ...properties } : {};
}

function responsesOf(route: Route, components: Components): Record<string, unknown> {
  const named = Object.entries(route.responses).map(([status, answer]): [string, unknown] => [
    status,
    responseOf(Number(status), answer, components),
  ]);
  const content = { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } };
  return { ...Object.fromEntries(named), default: { description: 'A problem', content } };
}

function responseOf(status: number, answer: z.ZodType | OtherContent | 'empty', components: Components): unknown {
  const description = STATUS_CODES[status] ?? String(status);
  if (answer === 'empty') return { description };
  if (!(answer instanceof z.ZodType)) {
    const { description: about, contentType, json } = answer;
    const asJson = json && { 'application/json': { schema: convert(json, 'output', components) } };
    return { description: about, content: { ...asJson, [contentType]: { schema: { type: 'string' } } } };
  }
  return { description, content: { 'application/json': { schema: convert(answer, 'output', components) } } };
}

function convert(schema: z.ZodType, io: 'input' | 'output', components: Components): JsonSchema {
  const made = z.toJSONSchema(schema, { target: 'draft-2020-12', io, unrepresentable: 'any', reused: 'inline' });
  const { $schema: _, $defs, ...own } = relocate(withNames(made));
  for (const [name, definition] of Object.entries($defs ?? {})) components[name] ??= withoutId(definition);
  const id = schema.meta()?.id;
  if (id === undefined) return own;
  components[id] ??= withoutId(own);
  return { $ref: `#/components/schemas/${id}` };
}

/** Names recursive schemas without an id by their digest: Zod numbers them anew in each conversion. */
function withNames(made: JsonSchema): JsonSchema {
  const text = JSON.stringify(made);
  if (!text.includes('"__schema')) return made;
  const unnamed = Object.entries(made.$defs ?? {}).filter(([name]) => name.startsWith('__schema'));
  const digest = sha256(JSON.stringify(unnamed)).toString('hex').slice(0, 8);
  return JSON.parse(text.replaceAll(/(?<=["/])__schema(\d+)(?=")/g, `Nested${digest}_$1`)) as JsonSchema;
}

/** Changes references to the form of OpenAPI. */
function relocate(schema: unknown): JsonSchema & { $defs?: JsonSchema } {
  return JSON.parse(JSON.stringify(schema).replaceAll('"#/$defs/', '"#/components/schemas/'));
}

function withoutId(schema: unknown): unknown {
  if (typeof schema !== 'object' || schema === null) return schema;
  const { id: _, $id: __, ...rest } = schema as JsonSchema;
  return rest;
}
