import assert from 'node:assert/strict';
import { newId } from '../../lib/new-id.ts';
import { startEverything } from '../support/mcp-server-everything.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { newName } from '../support/new-name.ts';

const TOOL = { description: 'A tool.', transport: { type: 'http', endpoint: 'https://tools.example/' } };
const POLICY = { when: 'true', decision: 'block' };

describe('a key that is bound to a workspace', () => {
  let api: TestApi;
  let bound: string;
  before(async () => {
    api = await startTestApi();
    const { json: agent } = await api.call('POST', '/v1/agents', { body: { name: newName() } });
    const { workspace_id } = (await api.call('GET', `/v1/agents/${agent.id}`)).json;
    const body = { name: 'bound', scopes: ['admin'], workspace_id };
    bound = (await api.call('POST', '/v1/api-keys', { body })).json.key;
  });
  after(() => api.close());

  it('writes nothing that all workspaces share, and reads it', async () => {
    const tool = (await api.call('POST', '/v1/tools', { body: { name: 'shared', ...TOOL } })).json.id;
    const policy = (await api.call('POST', '/v1/policies', { body: { name: 'shared', ...POLICY } })).json.id;
    await api.call('PUT', '/v1/secrets/shared', { body: { value: 'value' } });
    const mcp = await startEverything('streamableHttp');
    try {
      const transport = { type: 'http', endpoint: mcp.url };
      assert.equal((await api.call('POST', '/v1/tools/import', { body: { transport } })).status, 201);
      const server = (await api.call('GET', '/v1/mcp-servers')).json.mcp_servers[0].id;
      const writes: [method: string, path: string, body?: unknown][] = [
        ['PUT', '/v1/secrets/shared', { value: 'mine' }],
        ['PUT', '/v1/secrets/new', { value: 'mine' }],
        ['DELETE', '/v1/secrets/shared'],
        ['POST', '/v1/policies', { name: 'mine', ...POLICY }],
        ['PATCH', `/v1/policies/${policy}`, { reason: 'mine' }],
        ['DELETE', `/v1/policies/${policy}`],
        ['POST', '/v1/tools', { name: 'mine', ...TOOL }],
        ['POST', '/v1/tools/import', { transport }],
        ['PATCH', `/v1/tools/${tool}`, { description: 'Mine.' }],
        ['PATCH', `/v1/tools/${tool}`, { suspended: true }],
        ['DELETE', `/v1/tools/${tool}`],
        ['PATCH', `/v1/mcp-servers/${server}`, { suspended: true }],
        // Whether there is such a thing is no business of the key's either.
        ['DELETE', `/v1/tools/${newId()}`],
      ];
      for (const [method, path, body] of writes) {
        const answer = await api.call(method, path, { key: bound, ...(body === undefined ? {} : { body }) });
        assert.equal(answer.status, 403, `${method} ${path}: ${answer.text}`);
      }
      const reads = [`/v1/tools/${tool}`, `/v1/policies/${policy}`, '/v1/secrets/shared', `/v1/mcp-servers/${server}`];
      for (const path of reads) assert.equal((await api.call('GET', path, { key: bound })).status, 200, path);
      const { json } = await api.call('GET', `/v1/tools/${tool}`);
      assert.deepEqual([json.description, json.suspended], ['A tool.', false]);
      assert.equal((await api.call('GET', '/v1/secrets/new')).status, 404);
    } finally {
      await mcp.kill();
    }
  });

  it('still writes what is of its workspace', async () => {
    const { status, json } = await api.call('POST', '/v1/agents', { key: bound, body: { name: 'mine' } });
    assert.equal(status, 201);
    const patched = await api.call('PATCH', `/v1/agents/${json.id}`, { key: bound, body: { description: 'd' } });
    assert.equal(patched.status, 200);
  });
});
