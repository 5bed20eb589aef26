import assert from 'node:assert/strict';
import { startServer } from '../support/echo-server.ts';
import { startListingServer } from '../support/listing-server.ts';
import { startEverything } from '../support/mcp-server-everything.ts';
import { BUILTIN_TOOLS } from '../../tools/builtin.ts';
import { startTestApi } from '../support/api.ts';
import type { Call, TestApi } from '../support/api.ts';
import type { LocalServer } from '../support/echo-server.ts';
import { ODD_SERVER } from '../support/odd-server.ts';

type ListedTool = { name: string; category: string; transport: { tool: string } };

const HTTP = { type: 'http', endpoint: 'https://tools.example/search' };
const ODD = { type: 'stdio', ...ODD_SERVER };

describe('tools over HTTP', () => {
  let api: TestApi;
  let server: LocalServer;
  let number = 0;
  before(async () => {
    // Which programs may be started is the operator's to say elsewhere.
    api = await startTestApi('embedded');
    server = await startServer(({ path, body }, response) => {
      if (path === '/slow') return;
      response.writeHead(path === '/broken' ? 400 : 200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ path, got: JSON.parse(body) }));
    });
  });
  after(async () => {
    await api.close();
    await server.close();
  });

  const register = (fields: Record<string, unknown> = {}, call: Call = {}) => {
    number += 1;
    const body = { name: `tool_${number}`, description: 'A tool.', transport: HTTP, ...fields };
    return api.call('POST', '/v1/tools', { body, ...call });
  };
  const create = async (fields: Record<string, unknown> = {}) => {
    const answer = await register(fields);
    assert.equal(answer.status, 201, answer.text);
    return answer.json;
  };
  const idOfBuiltin = async (name: string): Promise<string> => {
    const { json } = await api.call('GET', `/v1/tools?filter=name:${name}`);
    return json.tools[0].id;
  };
  const keyWith = async (...scopes: string[]): Promise<string> => {
    const { json } = await api.call('POST', '/v1/api-keys', { body: { name: 'k', scopes } });
    return json.key;
  };

  it('with templates are registered, shown without what may be a credential, and called', async () => {
    const templates = {
      method: 'PUT',
      path: '/people/{{input.id}}',
      query: { api_key: 'abc', on: '{{input.on}}' },
      body: { name: '{{input.name}}' },
      response: { expression: 'got.name' },
    };
    const { id } = await create({ transport: { ...HTTP, endpoint: server.url, ...templates } });
    const { json } = await api.call('GET', `/v1/tools/${id}`);
    assert.deepEqual(json.transport.query, { api_key: '[hidden]', on: '{{input.on}}' });
    assert.deepEqual([json.transport.path, json.transport.body], [templates.path, templates.body]);
    const answer = await api.call('POST', `/v1/tools/${id}/execute`, { body: { input: { id: 'a/b', name: 'Ada' } } });
    assert.equal(answer.json.output, 'Ada', answer.text);
    const wrong = await register({ transport: { ...HTTP, path: '/{{env.HOME}}', body: { a: '{{x}}' } } });
    assert.equal(wrong.status, 422);
    assert.deepEqual(
      wrong.json.errors.map((error: { path: string }) => error.path),
      ['body.transport.body', 'body.transport.path'],
    );
  });

  it("take the document's example unchanged, with defaults for the rest", async () => {
    const { id, tool_id, name, version, status } = await create({
      name: 'search',
      input_schema: { type: 'object' },
      transport: { ...HTTP, headers: { Authorization: 'Bearer {{secret:api_key}}' } },
      permissions: ['network:external'],
    });
    assert.deepEqual([tool_id, name, version, status], [id, 'search', '1.0.0', 'registered']);
    const { json } = await api.call('GET', `/v1/tools/${id}`);
    assert.deepEqual(json.execution, {
      timeout_ms: 30_000,
      retry_config: { max_retries: 3, backoff_ms: 1000 },
      inline: false,
    });
    assert.deepEqual(json.permissions, [{ name: 'network:external', required: true }]);
    assert.deepEqual([json.risk_level, json.is_builtin], ['WRITE_LOW_RISK', false]);
    assert.equal(json.transport.headers.Authorization, 'Bearer {{secret:api_key}}');
  });

  it('do not show header values and variables that may be credentials', async () => {
    const headers = { Authorization: 'Bearer hunter2', 'X-Api-Key': 'hunter2', 'X-Mode': 'fast' };
    const http = await create({ transport: { ...HTTP, headers } });
    const stdio = await create({ transport: { type: 'mcp_stdio', command: 'x', env: { PLACE: 'hunter2' } } });
    for (const { id } of [http, stdio]) {
      const shown = await api.call('GET', `/v1/tools/${id}`);
      assert.doesNotMatch(shown.text, /hunter2/);
      const { transport } = shown.json;
      const sentBack = await api.call('PATCH', `/v1/tools/${id}`, { body: { transport } });
      assert.equal(sentBack.status, 400, 'what is hidden must not become the value');
    }
    assert.match((await api.call('GET', `/v1/tools/${http.id}`)).text, /fast/);
  });

  it('take a risk in any case, and say what may be done with a call whose outcome is unknown', async () => {
    for (const [risk_level, effect] of [
      ['read_only', 'read_only'],
      ['Write_High_Risk', 'unknown'],
    ] as const) {
      const { id } = await create({ risk_level });
      const { json } = await api.call('GET', `/v1/tools/${id}`);
      assert.deepEqual([json.risk_level, json.effect], [risk_level.toUpperCase(), effect]);
      assert.equal(
        (await api.call('PATCH', `/v1/tools/${id}`, { body: { risk_level: 'write_low_risk' } })).status,
        200,
      );
    }
    const { id } = await create({ annotations: { idempotentHint: true } });
    assert.equal((await api.call('GET', `/v1/tools/${id}`)).json.effect, 'idempotent');
  });

  it('keep a name for one tool only, until it is deleted', async () => {
    const { id, name } = await create();
    assert.equal((await register({ name })).status, 409);
    assert.equal((await register({ name: 'calculator' })).status, 409);
    assert.equal((await api.call('DELETE', `/v1/tools/${id}`)).status, 204);
    assert.equal((await api.call('DELETE', `/v1/tools/${id}`)).status, 404);
    assert.equal((await api.call('GET', `/v1/tools/${id}`)).status, 404);
    assert.equal((await register({ name })).status, 201);
  });

  for (const [what, status, fields, place] of [
    ['a name that models do not take', 400, { name: 'a b' }, 'body.name'],
    ['a name that only looks like another', 400, { name: 'c\u0430lculator' }, 'body.name'],
    [
      'an endpoint that is no URL',
      400,
      { transport: { type: 'http', endpoint: 'ftp://x' } },
      'body.transport.endpoint',
    ],
    [
      'a password in the endpoint',
      400,
      { transport: { type: 'mcp_http', endpoint: 'https://me:hidden@mcp.example' } },
      'body.transport.endpoint',
    ],
    ['a transport that nobody knows', 400, { transport: { type: 'pigeon' } }, 'body.transport.type'],
    [
      'a header that would end the line',
      400,
      { transport: { ...HTTP, headers: { a: 'x\r\ny' } } },
      'body.transport.headers.a',
    ],
    [
      'a header that belongs to the connection',
      400,
      { transport: { ...HTTP, headers: { accept: 'text/plain', Host: 'x' } } },
      'body.transport.headers.Host',
    ],
    [
      'such a header of a server',
      400,
      { transport: { type: 'mcp_http', endpoint: 'https://mcp.example', headers: { 'content-length': '1' } } },
      'body.transport.headers.content-length',
    ],
    ['the built-in transport', 422, { transport: { type: 'builtin' } }, 'body.transport.type'],
    [
      'a server of no URL',
      400,
      { transport: { type: 'mcp_http', endpoint: 'mcp.example' } },
      'body.transport.endpoint',
    ],
    [
      'a client tool with an address',
      400,
      { transport: { type: 'client', endpoint: 'https://x' } },
      'body.transport.endpoint',
    ],
    ['a sandbox', 400, { execution: { sandbox: true } }, 'body.execution.sandbox'],
    [
      'a schema that does not compile',
      422,
      { input_schema: { type: 'object', properties: { a: { type: 'nope' } } } },
      'body.input_schema',
    ],
    ['a schema of no object', 422, { input_schema: { type: 'string' } }, 'body.input_schema.type'],
  ] as const) {
    it(`with ${what} are ${status}, and the answer says where`, async () => {
      const answer = await register(fields);
      assert.equal(answer.status, status, answer.text);
      assert.deepEqual(
        answer.json.errors.map((error: { path: string }) => error.path),
        [place],
      );
    });
  }

  it('over stdio need the scope admin, since they are programs on the machine', async () => {
    const key = await keyWith('tools:write');
    const transport = { type: 'mcp_stdio', command: 'node' };
    assert.equal((await register({ transport }, { key })).status, 403);
    assert.equal((await api.call('POST', '/v1/tools/import', { key, body: { transport: ODD } })).status, 403);
    assert.equal((await register({ transport })).status, 201);
  });

  it('are listed with the built-in ones first, each once over all pages', async () => {
    const { key } = await api.newTenant();
    const made: string[] = [];
    for (const name of ['one', 'two', 'three']) {
      const { json } = await api.call('POST', '/v1/tools', { key, body: { name, description: 'd', transport: HTTP } });
      made.unshift(json.name);
    }
    const seen: string[] = [];
    let cursor = '';
    do {
      const { json } = await api.call('GET', `/v1/tools?limit=2${cursor}`, { key });
      assert.ok(json.tools.length <= 2);
      seen.push(...json.tools.map(({ name }: { name: string }) => name));
      cursor = json.next_cursor === undefined ? '' : `&cursor=${json.next_cursor}`;
    } while (cursor !== '');
    assert.deepEqual(seen, [...BUILTIN_TOOLS.map(({ name }) => name), ...made]);
  });

  it('are filtered by kind, name and the permissions they need', async () => {
    const { key } = await api.newTenant();
    for (const [name, permissions] of [
      ['reader', ['file:read']],
      ['writer', ['file:read', 'file:write']],
    ] as const) {
      await api.call('POST', '/v1/tools', { key, body: { name, description: 'd', transport: HTTP, permissions } });
    }
    const names = async (query: string) => {
      const { json } = await api.call('GET', `/v1/tools?${query}`, { key });
      return json.tools.map(({ name }: { name: string }) => name);
    };
    assert.deepEqual(await names('filter=builtin:false'), ['writer', 'reader']);
    assert.ok((await names('filter=builtin:true')).includes('calculator'));
    assert.deepEqual(await names('filter=builtin:false,name:reader'), ['reader']);
    assert.deepEqual(await names('capabilities=file:read'), ['writer', 'reader']);
    assert.deepEqual(await names('capabilities=file:read,file:write'), ['writer']);
    assert.deepEqual(await names('capabilities=file:read&capabilities=file:write'), ['writer']);
    assert.equal((await api.call('GET', '/v1/tools?filter=colour:red', { key })).status, 400);
  });

  it('get a new version by PATCH, with null as the way back to a default', async () => {
    const { id } = await create({ permissions: ['p'], execution: { timeout_ms: 5 } });
    const change = { description: 'Better.', permissions: null, execution: null };
    const { json } = await api.call('PATCH', `/v1/tools/${id}`, { body: change });
    assert.deepEqual(
      [json.version, json.description, json.permissions, json.execution.timeout_ms],
      ['1.1.0', 'Better.', [], 30_000],
    );
    assert.equal((await api.call('PATCH', `/v1/tools/${id}`, { body: change })).json.version, '1.1.0');
    assert.equal((await api.call('PATCH', `/v1/tools/${id}`, { body: { version: '1.0.5' } })).status, 422);
    assert.equal((await api.call('PATCH', `/v1/tools/${id}`, { body: { name: 'other' } })).status, 400);
  });

  it('that are built in can be looked at and called, not changed or deleted', async () => {
    const id = await idOfBuiltin('calculator');
    assert.equal((await api.call('GET', `/v1/tools/${id}`)).json.is_builtin, true);
    assert.equal((await api.call('PATCH', `/v1/tools/${id}`, { body: { description: 'x' } })).status, 409);
    assert.equal((await api.call('DELETE', `/v1/tools/${id}`)).status, 409);
    const { json } = await api.call('POST', `/v1/tools/${id}/execute`, { body: { input: { expression: '6*7' } } });
    assert.deepEqual([json.status, /42/.test(JSON.stringify(json.output))], ['success', true]);
  });

  describe('executed directly', () => {
    const execute = (id: string, body: unknown, call: Call = {}) =>
      api.call('POST', `/v1/tools/${id}/execute`, { body, ...call });

    it('answer with their output', async () => {
      const { id } = await create({ transport: { type: 'http', endpoint: `${server.url}/echo` } });
      const { status, json } = await execute(id, { input: { a: 1 } });
      assert.deepEqual([status, json.status, json.output], [200, 'success', { path: '/echo', got: { a: 1 } }]);
    });

    it('are 200 with status error where the tool fails or takes too long', async () => {
      const broken = await create({ transport: { type: 'http', endpoint: `${server.url}/broken` } });
      const failed = await execute(broken.id, { input: {} });
      assert.deepEqual([failed.status, failed.json.status, failed.json.error.code], [200, 'error', 'http-400']);
      const slow = await create({ transport: { type: 'http', endpoint: `${server.url}/slow` } });
      const late = await execute(slow.id, { input: {}, timeout_ms: 50 });
      assert.deepEqual([late.status, late.json.status, late.json.error.code], [200, 'error', 'timeout']);
    });

    it('with input that does not fit are 422 and never reach the tool', async () => {
      const input_schema = { type: 'object', properties: { a: { type: 'number' } }, required: ['a'] };
      const { id } = await create({ transport: { type: 'http', endpoint: `${server.url}/echo` }, input_schema });
      const before = server.seen.length;
      const { status, json } = await execute(id, { input: { a: 'x' } });
      assert.deepEqual([status, json.errors[0].path, server.seen.length], [422, 'body.input.a', before]);
    });

    it('need admin where the risk is high', async () => {
      const { id } = await create({
        transport: { type: 'http', endpoint: `${server.url}/echo` },
        risk_level: 'WRITE_HIGH_RISK',
      });
      const key = await keyWith('tools:execute');
      assert.equal((await execute(id, { input: {} }, { key })).status, 403);
      assert.equal((await execute(id, { input: {} })).status, 200);
    });
  });

  describe('imported from an MCP server', () => {
    const load = (key: string, more: Record<string, unknown> = {}, headers = {}) =>
      api.call('POST', '/v1/tools/import', { key, body: { transport: ODD, ...more }, headers });

    it('are registered all at once, and again only where they have changed', async () => {
      const { key } = await api.newTenant();
      const first = await load(key);
      assert.equal(first.status, 201, first.text);
      const versions = new Map<string, string>(
        first.json.tools.map((tool: { name: string; version: string }) => [tool.name, tool.version]),
      );
      assert.deepEqual([versions.get('text'), versions.get('meta')], ['1.0.0', '1.0.0']);
      const again = await load(key, { trusted: true });
      const later = new Map<string, string>(
        again.json.tools.map((tool: { name: string; version: string }) => [tool.name, tool.version]),
      );
      assert.deepEqual([later.get('text'), later.get('meta'), later.size], ['1.1.0', '1.0.0', versions.size]);
    });

    it('are those that the import names, under a prefix, and the answer says which were left out and why', async () => {
      const { key } = await api.newTenant();
      const chosen = { name: 'Oddities', prefix: 'odd_', include: ['text', 'pid', 'odd name/1'], exclude: ['pid'] };
      const { status, json, text } = await load(key, chosen);
      assert.equal(status, 201, text);
      const made = json.tools.map(({ name, category, transport }: ListedTool) => [name, category, transport.tool]);
      assert.deepEqual(made, [
        ['odd_text', 'Oddities', 'text'],
        ['odd_odd_name_1', 'Oddities', 'odd name/1'],
      ]);
      const servers = (await api.call('GET', '/v1/mcp-servers', { key })).json.mcp_servers;
      assert.deepEqual(json.server, { id: servers[0].id, name: 'Oddities', transport: servers[0].transport });
      const reasons = new Map(json.skipped.map(({ name, reason }: Record<string, string>) => [name, reason]));
      assert.deepEqual([reasons.get('pid'), reasons.get('json')], ['It is in `exclude`.', 'It is not in `include`.']);
      assert.equal(reasons.size, 20);
      const again = await load(key, { prefix: 'odd_', include: ['text'], trusted: true });
      assert.deepEqual(
        again.json.tools.map(({ name, version, category }: Record<string, string>) => [name, version, category]),
        [['odd_text', '1.1.0', 'Oddities']],
      );
      assert.deepEqual((await load(key, { prefix: 'x'.repeat(62), include: ['pid'] })).json.tools, []);
    });

    it('cannot be chosen by names that the server does not have', async () => {
      for (const field of ['include', 'exclude']) {
        const { status, json } = await load(api.key, { [field]: ['text', 'txet'] });
        const [{ path, message }] = json.errors;
        assert.deepEqual([status, path, message], [422, `body.${field}.1`, 'the server has no tool "txet"']);
      }
    });

    it('are left out where their schema cannot be used', async () => {
      const { key } = await api.newTenant();
      const listed = [
        { name: 'good', description: 'd', inputSchema: { type: 'object' } },
        { name: 'bad', description: 'd', inputSchema: { type: 'object', properties: { a: { type: 'nothing' } } } },
        { name: 'list', description: 'd', inputSchema: { type: 'array' } },
        { name: 'none' },
        { name: 'told', description: 5, inputSchema: { type: 'object' }, outputSchema: { type: 'object' } },
        { name: 'answer', inputSchema: { type: 'object' }, outputSchema: { type: 'string' } },
      ];
      const mcp = await startListingServer(listed);
      const transport = { type: 'http', endpoint: mcp.url };
      const { status, json, text } = await api.call('POST', '/v1/tools/import', { key, body: { transport } });
      assert.equal(status, 201, text);
      assert.deepEqual(
        json.tools.map(({ name }: { name: string }) => name),
        ['good'],
      );
      const skipped = json.skipped.map(({ name, reason }: Record<string, string>) => `${name}: ${reason}`);
      assert.equal(skipped.length, 5);
      assert.match(skipped[0], /^bad: .*schema.*properties\/a/);
      assert.match(skipped[1], /^list: Its input schema cannot be used: type: .*object/);
      assert.match(skipped[2], /^none: Its input schema cannot be used: .*object/);
      assert.match(skipped[3], /^told: Its definition cannot be used: description: .*string/);
      assert.match(skipped[4], /^answer: Its output schema cannot be used: type: .*object/);
      const chosen = { transport, exclude: ['list'], include: ['good'] };
      assert.equal((await api.call('POST', '/v1/tools/import', { key, body: chosen })).status, 201);
      await mcp.close();
    });

    it('are left out where their server takes their calls as tasks alone', async () => {
      const { key } = await api.newTenant();
      const mcp = await startListingServer(
        ['required', 'optional', 'forbidden'].map((taskSupport) => ({
          name: taskSupport,
          inputSchema: { type: 'object' },
          execution: { taskSupport },
        })),
      );
      const { status, json } = await load(key, { transport: { type: 'http', endpoint: mcp.url } });
      const names = (of: { name: string }[]) => of.map(({ name }) => name);
      assert.deepEqual(
        [status, names(json.tools), names(json.skipped)],
        [201, ['optional', 'forbidden'], ['required']],
      );
      assert.match(json.skipped[0].reason, /as tasks alone/);
      await mcp.close();
    });

    it('are none at all where one name belongs to another tool', async () => {
      const { key } = await api.newTenant();
      await api.call('POST', '/v1/tools', { key, body: { name: 'meta', description: 'd', transport: HTTP } });
      const answer = await load(key);
      assert.equal(answer.status, 409);
      assert.match(answer.json.detail, /"meta".*`prefix`/);
      const { json } = await api.call('GET', '/v1/tools?filter=builtin:false', { key });
      assert.equal(json.tools.length, 1);
    });

    it('are answered again for the same Idempotency-Key', async () => {
      const { key } = await api.newTenant();
      const headers = { 'idempotency-key': 'import-1' };
      const first = await load(key, {}, headers);
      const second = await load(key, {}, headers);
      assert.deepEqual([second.status, second.headers.get('idempotent-replayed')], [201, 'true']);
      assert.deepEqual(second.json, first.json);
      assert.equal((await load(key, { trusted: true }, headers)).status, 422);
    });

    for (const type of ['http', 'sse'] as const) {
      it(`over ${type} ask a server that runs, and need no admin`, async () => {
        const mcp = await startEverything(type === 'http' ? 'streamableHttp' : 'sse');
        const { key: admin } = await api.newTenant();
        const scopes = ['tools:write', 'tools:read', 'tools:execute'];
        const { json: made } = await api.call('POST', '/v1/api-keys', { key: admin, body: { name: 't', scopes } });
        const { key } = made;
        const transport = { type, endpoint: mcp.url, headers: { authorization: 'Bearer x' } };
        const { status, json, text } = await api.call('POST', '/v1/tools/import', { key, body: { transport } });
        assert.equal(status, 201, text);
        const echo = json.tools.find((tool: { name: string }) => tool.name === 'echo');
        const headers = { authorization: '[hidden]' };
        assert.deepEqual(echo.transport, { type: `mcp_${type}`, endpoint: mcp.url, headers, tool: 'echo' });
        const path = `/v1/tools/${echo.id}/execute`;
        const answer = await api.call('POST', path, { key, body: { input: { message: 'hi' } } });
        assert.equal(answer.json.output, 'Echo: hi');
        await mcp.kill();
      });
    }

    it('from addresses that are not public are refused, also behind a redirect', async () => {
      const direct = { type: 'http', endpoint: 'http://169.254.169.254/mcp' };
      const bouncer = await startServer((_request, response) => {
        response.writeHead(307, { location: 'http://169.254.169.254/mcp' }).end();
      });
      const redirected = { type: 'http', endpoint: `${bouncer.url}/mcp` };
      const loop = { type: 'sse', endpoint: 'http://[::ffff:10.0.0.1]/sse' };
      for (const transport of [direct, redirected, loop]) {
        const { status, text } = await api.call('POST', '/v1/tools/import', { body: { transport } });
        assert.equal(status, 422, text);
        assert.match(text, /refused|redirect/);
      }
      assert.equal(bouncer.seen.length, 1);
      await bouncer.close();
    });

    it('from a command that does not start are 422', async () => {
      const transport = { type: 'stdio', command: '/nowhere/at/all' };
      assert.equal((await api.call('POST', '/v1/tools/import', { body: { transport } })).status, 422);
    });
  });
});
