import assert from 'node:assert/strict';
import { anthropicModel } from '../../llm/anthropic.ts';
import { openaiModel } from '../../llm/openai.ts';
import { startFakeAnthropic } from '../support/fake-anthropic.ts';
import type { FakeServer } from '../support/fake-http.ts';
import { startFakeOpenAI } from '../support/fake-openai.ts';
import { ask, modelRequest, WEATHER } from '../support/model-request.ts';

type Schema = Record<string, unknown>;

/** The tools of the first request. */
const toolsIn = ({ requests }: FakeServer) =>
  requests[0]?.body['tools'] as { input_schema?: Schema; function?: { parameters: Schema } }[];

/** The schema of a tool, as each provider gets it. */
const SENT: Record<string, (schema: Schema) => Promise<unknown>> = {
  Claude: async (input_schema) => {
    const server = await startFakeAnthropic(() => ({ content: [{ type: 'text', text: 'fine' }] }));
    try {
      const stream = anthropicModel({ apiKey: 'k', baseUrl: server.url });
      await ask(stream, modelRequest({ tools: [{ ...WEATHER, input_schema }] }));
      return toolsIn(server)[0]?.input_schema;
    } finally {
      await server.close();
    }
  },
  GPT: async (input_schema) => {
    const server = await startFakeOpenAI(() => ({ text: 'fine' }));
    try {
      const stream = openaiModel({ apiKey: 'k', baseUrl: `${server.url}/v1` });
      await ask(stream, modelRequest({ model: 'gpt-4.1', tools: [{ ...WEATHER, input_schema }] }));
      return toolsIn(server)[0]?.function?.parameters;
    } finally {
      await server.close();
    }
  },
};

describe("A tool's schema", () => {
  for (const [model, sent] of Object.entries(SENT)) {
    it(`goes to ${model} as an object schema; what is refused at its top is told in words`, async () => {
      const anyOf = [{ required: ['city'] }, { required: ['zip'] }];
      const nested = { anyOf: [{ type: 'string' }, { type: 'integer' }] };
      const schema = { description: 'A place.', properties: { city: { type: 'string' }, zip: nested }, anyOf };
      const before = structuredClone(schema);
      assert.deepEqual(await sent(schema), {
        type: 'object',
        description: `A place.\n\nThe input must also match this JSON Schema: ${JSON.stringify({ anyOf })}`,
        properties: { city: { type: 'string' }, zip: nested },
      });
      assert.deepEqual(schema, before);
      const { description } = (await sent({ not: { required: ['x'] }, oneOf: [{}], allOf: [{}] })) as Schema;
      const told = '{"not":{"required":["x"]},"oneOf":[{}],"allOf":[{}]}';
      assert.equal(description, `The input must also match this JSON Schema: ${told}`);
    });

    it(`goes to ${model} as it is, if nothing in it is refused`, async () => {
      const schema = { ...WEATHER.input_schema, description: 'A place.', additionalProperties: false };
      assert.equal(JSON.stringify(await sent(schema)), JSON.stringify(schema));
    });
  }

  it('tells Claude in words of properties whose names it refuses, and GPT as it is', async () => {
    const refused = { $filter: { type: 'string' }, [`a${'b'.repeat(64)}`]: {} };
    const schema = {
      type: 'object',
      properties: { 'top.n-1': { type: 'integer' }, ...refused },
      required: ['top.n-1', '$filter'],
      additionalProperties: false,
    };
    const told = JSON.stringify({ properties: refused, required: ['$filter'] });
    assert.deepEqual(await SENT['Claude']?.(schema), {
      type: 'object',
      description: `The input must also match this JSON Schema: ${told}`,
      properties: { 'top.n-1': { type: 'integer' } },
      required: ['top.n-1'],
    });
    assert.deepEqual(await SENT['GPT']?.(schema), schema);
  });
});
