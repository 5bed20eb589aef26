import assert from 'node:assert/strict';
import { startServer, type LocalServer } from '../support/echo-server.ts';
import { startEverything } from '../support/mcp-server-everything.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { ODD_SERVER } from '../support/odd-server.ts';

describe('the hosts of a secret', () => {
  let api: TestApi;
  let server: LocalServer;
  let writer: string;
  let number = 0;
  before(async () => {
    api = await startTestApi();
    server = await startServer((request, response) => {
      const to = new URL(request.path, 'http://here').searchParams.get('to');
      if (to !== null) response.writeHead(307, { location: to }).end();
      else response.end('done');
    });
    const scopes = ['tools:write', 'tools:read', 'tools:execute'];
    writer = (await api.call('POST', '/v1/api-keys', { body: { name: 'w', scopes } })).json.key;
  });
  beforeEach(() => {
    server.seen.length = 0;
  });
  after(async () => {
    await api.close();
    await server.close();
  });

  const put = (name: string, body: Record<string, unknown>) =>
    api.call('PUT', `/v1/secrets/${name}`, { body: { value: 'c4nary-value', ...body } });
  const transportTo = (endpoint: string, secret: string, more: Record<string, unknown> = {}) => {
    return { type: 'http', endpoint, headers: { 'x-key': `{{secret:${secret}}}` }, ...more };
  };
  const register = (transport: Record<string, unknown>, key = api.key) => {
    number += 1;
    const body = { name: `tool_${number}`, description: 'A tool.', transport };
    return api.call('POST', '/v1/tools', { key, body });
  };
  const execute = async (id: string) =>
    (await api.call('POST', `/v1/tools/${id}/execute`, { body: { input: {} } })).json;
  const here = () => new URL(server.url).host;

  it('are stored in one form, shown, kept with a new value, and taken away by null', async () => {
    const hosts = ['API.Example.com.', '*.example.org', 'bücher.example:8443', '127.1', '[::1]:8080'];
    const made = await put('kept', { hosts });
    assert.equal(made.status, 201, made.text);
    const stored = ['api.example.com', '*.example.org', 'xn--bcher-kva.example:8443', '127.0.0.1', '[::1]:8080'];
    assert.deepEqual(made.json.hosts, stored);
    assert.deepEqual((await put('kept', {})).json.hosts, stored);
    assert.deepEqual((await api.call('GET', '/v1/secrets/kept')).json.hosts, stored);
    assert.equal((await put('kept', { hosts: null })).json.hosts, undefined);
    for (const wrong of [
      [],
      ['*'],
      ['https://a.example'],
      ['a.example/x'],
      ['a b'],
      ['a@b.example'],
      ['a.example:99999'],
      ['*.127.0.0.1'],
    ]) {
      assert.equal((await put('kept', { hosts: wrong })).status, 400, JSON.stringify(wrong));
    }
    assert.doesNotMatch((await put('kept', { hosts: ['c4nary-value/'] })).text, /c4nary/);
  });

  it('are checked when a tool is registered, changed or imported', async () => {
    await put('limited', { hosts: ['api.example', '*.trusted.example', 'ported.example:8443'] });
    const cases: [endpoint: string, status: number][] = [
      ['https://api.example/x', 201],
      ['https://API.example.:9000/x', 201],
      ['https://sub.api.example/', 422],
      ['https://api.example.evil.example/', 422],
      ['https://a.b.trusted.example/', 201],
      ['https://trusted.example/', 422],
      ['https://untrusted.example/', 422],
      ['https://ported.example:8443/', 201],
      ['https://ported.example/', 422],
    ];
    for (const [endpoint, status] of cases) {
      for (const key of [api.key, writer]) {
        const answer = await register(transportTo(endpoint, 'limited'), key);
        assert.equal(answer.status, status, `${endpoint} ${answer.text}`);
        if (status === 422) assert.equal(answer.json.errors[0].path, 'body.transport');
      }
    }
    const { json } = await register(transportTo('https://api.example/', 'limited'));
    const body = { transport: transportTo('https://evil.example/', 'limited') };
    assert.equal((await api.call('PATCH', `/v1/tools/${json.id}`, { body })).status, 422);
    const headers = { 'x-key': '{{secret:limited}}' };
    const imported = { transport: { type: 'http', endpoint: `${server.url}/mcp`, headers } };
    assert.equal((await api.call('POST', '/v1/tools/import', { body: imported })).status, 422);
    assert.equal(server.seen.length, 0, 'the server was not even asked');
    const program = { type: 'mcp_stdio', ...ODD_SERVER, env: { KEY: '{{secret:limited}}' } };
    assert.equal((await register(program)).status, 422);
  });

  it('missing, only an admin uses the secret in a tool', async () => {
    await put('anywhere', {});
    const transport = transportTo(server.url, 'anywhere');
    for (const secret of ['anywhere', 'not-there-yet']) {
      const refused = await register(transportTo(server.url, secret), writer);
      assert.equal(refused.status, 403, refused.text);
      assert.equal(refused.json.scope, 'admin');
    }
    const mcp = { type: 'http', endpoint: `${server.url}/mcp`, headers: transport.headers };
    assert.equal((await api.call('POST', '/v1/tools/import', { key: writer, body: { transport: mcp } })).status, 403);
    const { json } = await register(transport);
    const change = (body: Record<string, unknown>) => api.call('PATCH', `/v1/tools/${json.id}`, { key: writer, body });
    assert.equal((await change({ transport: { ...transport, method: 'PUT' } })).status, 403);
    assert.equal((await change({ description: 'The same transport.' })).status, 200);
    assert.equal(server.seen.length, 0);
    assert.equal((await execute(json.id)).status, 'success');
    await execute(json.id);
    const warned = api.log.filter((line) => JSON.stringify(line).includes(json.id) && line['level'] === 40);
    assert.equal(warned.length, 1, 'once a process, not with each call');
    assert.match(String(warned[0]?.['msg']), /secret.*hosts/);
  });

  it('are checked at each request, by what they are now', async () => {
    await put('moving', { hosts: [here()] });
    const { json } = await register(transportTo(server.url, 'moving'), writer);
    assert.equal((await execute(json.id)).status, 'success');
    await put('moving', { hosts: ['elsewhere.example'] });
    const { status, error } = await execute(json.id);
    assert.deepEqual([status, error.code], ['error', 'secret-not-for-host']);
    assert.equal(server.seen.length, 1);
  });

  it('are checked at each request to an MCP server', async () => {
    const mcp = await startEverything('streamableHttp');
    try {
      await put('mcp', { hosts: [new URL(mcp.url).host] });
      const transport = { type: 'http', endpoint: mcp.url, headers: { 'x-key': '{{secret:mcp}}' } };
      const imported = await api.call('POST', '/v1/tools/import', { key: writer, body: { transport } });
      assert.equal(imported.status, 201, imported.text);
      const echo = imported.json.tools.find(({ name }: { name: string }) => name === 'echo').id;
      const call = () => api.call('POST', `/v1/tools/${echo}/execute`, { body: { input: { message: 'hi' } } });
      assert.equal((await call()).json.status, 'success');
      await put('mcp', { hosts: ['elsewhere.example'] });
      assert.equal((await call()).json.error.code, 'secret-not-for-host');
    } finally {
      await mcp.kill();
    }
  });

  it('are checked at each redirect: no other host gets it in a header, a body or a URL', async () => {
    const other = await startServer((_request, response) => response.end('got it'));
    try {
      await put('followed', { hosts: [here()] });
      const to = (query = '') => `${server.url}/?to=${encodeURIComponent(`${other.url}/${query}`)}`;
      // Headers that go to any host otherwise.
      const headers = {
        'user-agent': 'by {{secret:followed}}',
        accept: '{{secret:followed}}',
        'x-key': '{{secret:followed}}',
      };
      const plain = await register({ type: 'http', endpoint: to(), headers });
      assert.equal((await execute(plain.json.id)).status, 'success');
      assert.match(String(server.seen[0]?.headers['user-agent']), /c4nary/);
      assert.doesNotMatch(JSON.stringify(other.seen), /c4nary/);
      assert.equal(other.seen.length, 1);
      const body = await register({ type: 'http', endpoint: to(), body: { key: '{{secret:followed}}' } });
      assert.equal((await execute(body.json.id)).error.code, 'egress-refused');
      const inUrl = await register(transportTo(to('?k=c4nary-value'), 'followed'));
      const { error } = await execute(inUrl.json.id);
      assert.equal(error.code, 'egress-refused');
      assert.doesNotMatch(JSON.stringify(error), /c4nary/);
      assert.equal(other.seen.length, 1);
    } finally {
      await other.close();
    }
  });

  it('do not open the signing secrets of webhooks to tools', async () => {
    const hook = await api.call('POST', '/v1/webhooks', { body: { url: server.url, events: ['run.completed'] } });
    assert.equal(hook.status, 201, hook.text);
    const answer = await register(transportTo(server.url, `webhook:${hook.json.id}`));
    assert.equal(answer.status, 422, answer.text);
  });
});
