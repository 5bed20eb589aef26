import assert from 'node:assert/strict';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { openApi } from '../../api/kit/openapi.ts';
import { ROUTES } from '../../api/routes.ts';

interface Operation {
  operationId: string;
  parameters: {
    name: string;
    in: string;
    required: boolean;
    schema: Record<string, unknown>;
    style?: string;
    explode?: boolean;
  }[];
  requestBody?: { content: Record<string, { schema: unknown }> };
  responses: Record<string, { description: string; content?: Record<string, { schema: unknown }> }>;
  security?: Record<string, string[]>[];
}

describe('/openapi.json', () => {
  const document = openApi(ROUTES, { title: 'Drover', version: '1.2.3' }) as {
    openapi: string;
    paths: Record<string, Record<string, Operation>>;
    components: { schemas: Record<string, unknown>; securitySchemes: Record<string, unknown> };
  };
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ name: `${method} ${path}`, operation })),
  );
  const find = (name: string): Operation => {
    const found = operations.find((each) => each.name === name);
    assert.ok(found, `${name} is missing`);
    return found.operation;
  };

  it('is OpenAPI 3.1 and has every route', () => {
    assert.match(document.openapi, /^3\.1\./);
    const expected = ROUTES.flatMap(({ method, path, documentsHead }) =>
      [method, ...(documentsHead ? ['head'] : [])].map((each) => `${each} ${path.replaceAll(/:(\w+)/g, '{$1}')}`),
    );
    assert.ok(expected.includes('head /v1/files/{id}/content'));
    assert.deepEqual(operations.map(({ name }) => name).toSorted(), expected.toSorted());
  });

  it('names each operation once', () => {
    const ids = operations.map(({ operation }) => operation.operationId);
    assert.equal(new Set(ids).size, ids.length);
  });

  it('describes every parameter of every path', () => {
    for (const { name, operation } of operations) {
      const inPath = [...name.matchAll(/\{(\w+)\}/g)].map(([, parameter]) => parameter);
      const described = operation.parameters.filter((parameter) => parameter.in === 'path');
      assert.deepEqual(
        described.map((parameter) => parameter.name),
        inPath,
        name,
      );
      assert.ok(
        described.every(({ required }) => required),
        name,
      );
    }
  });

  it('gives 50 where a page does not say how many, and 200 at most', () => {
    const lists = operations.filter(({ operation }) => operation.parameters.some(({ name }) => name === 'cursor'));
    assert.ok(lists.length > 20);
    const limits = lists.map(({ name, operation }) => {
      const { schema = {} } = operation.parameters.find((parameter) => parameter.name === 'limit') ?? {};
      return [name, schema['default'], schema['maximum']];
    });
    assert.deepEqual(
      limits.filter(([, usual, most]) => usual !== 50 || most !== 200),
      [],
    );
  });

  it('has schemas that are valid JSON Schema 2020-12, with no reference into nowhere', () => {
    const ajv = new Ajv2020({ strict: false, validateFormats: false });
    ajv.addSchema({ $id: 'https://drover.test/openapi', ...document });
    const references = [...JSON.stringify(document).matchAll(/"\$ref":"(#[^"]+)"/g)].map(([, pointer]) => pointer);
    assert.ok(references.length > 0);
    for (const pointer of new Set(references)) ajv.compile({ $ref: `https://drover.test/openapi${pointer}` });
    for (const { operation } of operations) {
      const schemas = [operation.requestBody, ...Object.values(operation.responses)].flatMap((part) =>
        Object.values(part?.content ?? {}).map(({ schema }) => schema),
      );
      for (const schema of [...schemas, ...operation.parameters.map((parameter) => parameter.schema)]) {
        assert.equal(ajv.validateSchema(schema as object), true, ajv.errorsText());
      }
    }
  });

  it('declares `metadata` of a query as clients generated from it send it', () => {
    const filters = operations.flatMap(({ name, operation }) =>
      operation.parameters.flatMap((each) => (each.name === 'metadata' ? [{ ...each, name }] : [])),
    );
    assert.ok(filters.length >= 4);
    for (const { name, style, explode } of filters) assert.deepEqual([style, explode], ['deepObject', true], name);
    const objects = operations.flatMap(({ operation }) =>
      operation.parameters.filter(({ schema }) => schema['type'] === 'object'),
    );
    assert.ok(objects.every(({ style }) => style === 'deepObject'));
  });

  it('has only one schema that refers to itself, a tree of runs: generators of types refuse one of any JSON', () => {
    const recursive = Object.entries(document.components.schemas).filter(([name, schema]) =>
      JSON.stringify(schema).includes(`"#/components/schemas/${name}"`),
    );
    const [tree] = recursive.map(([, schema]) => schema as { type: string; items: { properties: object } });
    assert.deepEqual([recursive.length, tree?.type, 'children' in (tree?.items.properties ?? {})], [1, 'array', true]);
  });

  it('keeps apart what refers to itself, a tree of runs, and takes any JSON as the body of an HTTP tool', () => {
    const ajv = new Ajv2020({ strict: false, validateFormats: false });
    ajv.addSchema({ $id: 'https://drover.test/openapi', ...document });
    const fits = ajv.compile({ $ref: 'https://drover.test/openapi#/components/schemas/ToolDefinition' });
    const transport = { type: 'http', endpoint: 'https://example.com', body: { q: '{{input.q}}', of: [1] } };
    assert.ok(
      fits({ name: 'a', description: 'b', input_schema: { type: 'object' }, transport }),
      ajv.errorsText(fits.errors),
    );
    assert.doesNotMatch(JSON.stringify(document), /__schema/);
  });

  it('says what queries, bodies, answers and keys are like', () => {
    const list = find('get /v1/agents');
    const limit = list.parameters.find(({ name }) => name === 'limit');
    assert.deepEqual([limit?.required, limit?.schema['type'], limit?.schema['maximum']], [false, 'integer', 200]);
    assert.deepEqual(list.security, [{ bearer: ['agents:read'] }]);
    const create = find('post /v1/agents');
    assert.deepEqual(create.requestBody?.content['application/json']?.schema, {
      $ref: '#/components/schemas/AgentRequest',
    });
    assert.ok(create.parameters.some(({ name }) => name === 'Idempotency-Key'));
    const headersOf = (operation: string) =>
      find(operation).parameters.flatMap(({ in: place, name }) => (place === 'header' ? [name] : []));
    assert.ok(headersOf('post /v1/runs/{run}/turns').includes('Prefer'));
    assert.ok(headersOf('get /v1/runs/{run}/stream').includes('Last-Event-ID'));
    assert.deepEqual(Object.keys(find('post /a2a/{agent}').responses['200']?.content ?? {}), [
      'application/json',
      'text/event-stream',
    ]);
    assert.ok(create.responses['201']);
    assert.deepEqual(create.responses['default']?.content?.['application/problem+json']?.schema, {
      $ref: '#/components/schemas/Problem',
    });
    assert.deepEqual(find('get /healthz').security, []);
    const head = find('head /v1/files/{id}/content');
    assert.deepEqual(
      Object.entries(head.responses).map(([status, { content }]) => [status, content]),
      ['200', '304', 'default'].map((status) => [status, undefined]),
    );
    assert.ok(document.components.securitySchemes['bearer']);
  });
});
