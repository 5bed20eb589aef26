import assert from 'node:assert/strict';
import { startTestApi, type TestApi } from '../support/api.ts';
import type { LocalServer } from '../support/echo-server.ts';
import { startListingServer } from '../support/listing-server.ts';

const ENDPOINT = 'https://tools.example/search?lang=en&api_key=PLAIN&x%5Fsig=PLAIN&design=flat';
const SHOWN = 'https://tools.example/search?lang=en&api_key=[hidden]&x%5Fsig=[hidden]&design=flat';
const BODY = {
  max_tokens: 500,
  password: 'PLAIN',
  author: 'Ada',
  user: { name: '{{input.name}}', secret_word: 'PLAIN', token: '{{secret:t}}', keys: ['PLAIN', { a: 'PLAIN' }] },
};

describe('what may be a credential in a transport', () => {
  let api: TestApi;
  let server: LocalServer;
  before(async () => {
    api = await startTestApi('embedded');
    server = await startListingServer([{ name: 'listed', inputSchema: { type: 'object' } }]);
  });
  after(async () => {
    await server.close();
    await api.close();
  });

  const register = (name: string, transport: object) =>
    api.call('POST', '/v1/tools', {
      body: { name, description: 'A tool.', input_schema: { type: 'object' }, transport },
    });

  it('is hidden in the query of the endpoint, in the query, and at any depth of the body', async () => {
    await api.call('PUT', '/v1/secrets/t', { body: { value: 'value-of-t' } });
    const query = { sig: 'PLAIN', signature: 'PLAIN', sigma: '2' };
    const made = await register('hides', { type: 'http', endpoint: ENDPOINT, query, body: BODY });
    assert.equal(made.status, 201, made.text);
    const { json } = await api.call('GET', `/v1/tools/${made.json.id}`);
    assert.deepEqual(json.transport, {
      type: 'http',
      endpoint: SHOWN,
      query: { sig: '[hidden]', signature: '[hidden]', sigma: '2' },
      body: {
        max_tokens: 500,
        password: '[hidden]',
        author: 'Ada',
        user: {
          name: '{{input.name}}',
          secret_word: '[hidden]',
          token: '{{secret:t}}',
          keys: ['[hidden]', { a: '[hidden]' }],
        },
      },
    });
    const { transport } = json;
    for (const [path, sent] of [
      ['endpoint', { ...transport, query, body: BODY }],
      ['endpoint', { ...transport, endpoint: SHOWN.replaceAll('[hidden]', '%5Bhidden%5D'), query, body: BODY }],
      ['body', { ...transport, endpoint: ENDPOINT, query }],
    ] as const) {
      const answer = await api.call('PATCH', `/v1/tools/${made.json.id}`, { body: { transport: sent } });
      assert.equal(answer.status, 400, answer.text);
      assert.deepEqual(
        answer.json.errors.map((error: { path: string }) => error.path),
        [`body.transport.${path}`],
      );
    }
  });

  it('is hidden in the endpoints of MCP servers and remote agents', async () => {
    const endpoint = `${server.url}?token=PLAIN`;
    const shown = `${server.url}?token=[hidden]`;
    const body = { transport: { type: 'http', endpoint } };
    const imported = await api.call('POST', '/v1/tools/import', { body });
    assert.equal(imported.status, 201, imported.text);
    assert.equal(imported.json.server.transport.endpoint, shown);
    const agent = await register('remote', { type: 'a2a', endpoint: ENDPOINT });
    for (const path of [`tools/${imported.json.tools[0].id}`, `mcp-servers/${imported.json.server.id}`]) {
      const { json } = await api.call('GET', `/v1/${path}`);
      assert.equal(json.transport.endpoint, shown, path);
    }
    const { json } = await api.call('GET', `/v1/tools/${agent.json.id}`);
    assert.equal(json.transport.endpoint, SHOWN);
    const { text } = await api.call('GET', '/v1/mcp-servers');
    assert.ok(!text.includes('PLAIN'), text);
  });
});
