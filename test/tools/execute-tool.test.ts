import assert from 'node:assert/strict';
import { textOfOutput } from '../../core/tool-output.ts';
import fc from 'fast-check';
import { DroverError } from '../../core/errors.ts';
import { MADE_THOUGH_FAILED } from '../../core/ledger.ts';
import { LIMITS } from '../../core/limits.ts';
import { SecretUnreadableError } from '../../core/secret-box.ts';
import type { DomainFunctions } from '../../tools/builtin/builtin-type.ts';
import { createEgress } from '../../tools/egress.ts';
import { createTools } from '../../tools/execute-tool.ts';
import type { RemoteWork, ToolOutcome } from '../../core/tool.ts';
import type { Tools, ToolsOptions } from '../../tools/execute-tool.ts';
import { uniqueName } from '../../tools/unique-name.ts';
import { cpuMs } from '../support/cpu-time.ts';
import { startServer } from '../support/echo-server.ts';
import { attemptOf, briefly, messageOf, outputOf, toolOf } from '../support/tool-attempt.ts';
import { ODD_SERVER } from '../support/odd-server.ts';
import { waitUntil } from '../support/wait-until.ts';

type UnreachedOutcome = Extract<ToolOutcome, { kind: 'unreached' }>;

const EGRESS = createEgress({ allow: [], allowLoopback: true });
const NODE = process.execPath;

describe('createTools', () => {
  let tools: Tools;
  const make = (more: Partial<ToolsOptions> = {}) => {
    tools = createTools({
      egress: EGRESS,
      stdioCommands: [NODE],
      ...more,
    });
    return tools;
  };
  afterEach(() => tools.close());

  it('runs built-in, HTTP and MCP tools', async () => {
    const server = await startServer((request, response) => response.end(request.body));
    make();
    const builtin = toolOf({ type: 'builtin' }, 'calculator');
    const http = toolOf({ type: 'http', endpoint: server.url });
    const mcp = toolOf({ type: 'mcp_stdio', ...ODD_SERVER }, 'json');
    assert.deepEqual(outputOf(await tools.execute(builtin, attemptOf({ expression: '6*7' }))), { result: 42 });
    assert.deepEqual(outputOf(await tools.execute(http, attemptOf({ a: 1 }))), { a: 1 });
    assert.deepEqual(outputOf(await tools.execute(mcp, attemptOf({}))), { a: [1, 2] });
    await server.close();
  });

  it('sends the same bytes in each attempt, though the arguments of the next one come from a database without order', async () => {
    const server = await startServer((_request, response) => response.end());
    make();
    const headers = { 'x-all': '{{input}}', 'x-of': 'of {{input.of}}' };
    const warm = attemptOf({ to: 'bob', amount: 100, of: { zone: 1, id: [{ b: 1, a: 2 }] } });
    const cold = attemptOf({ of: { id: [{ a: 2, b: 1 }], zone: 1 }, amount: 100, to: 'bob' });
    for (const method of ['POST', 'GET'] as const) {
      const tool = toolOf({ type: 'http', endpoint: server.url, method, headers });
      for (const attempt of [warm, cold]) await tools.execute(tool, attempt);
    }
    const sent = server.seen.map(({ path, body, headers: of }) => [path, body, of['x-all'], of['x-of']]);
    assert.deepEqual([sent[1], sent[3]], [sent[0], sent[2]]);
    await server.close();
  });

  it('asks for secrets in the name of the tenant whose call it is', async () => {
    const server = await startServer((request, response) => response.end(request.headers['x-key']));
    make({
      readSecrets: async (tenantId, names) =>
        new Map(names.map((name) => [name, { value: `${name}/${tenantId}`, hosts: null }])),
    });
    const tool = toolOf({ type: 'http', endpoint: server.url, headers: { 'x-key': '{{secret:k}}' } });
    await tools.execute(tool, attemptOf({}, { tenantId: 'acme' }));
    assert.equal(server.seen[0]?.headers['x-key'], 'k/acme');
    await server.close();
  });

  it('takes the value of a secret out of whatever comes back', async () => {
    const server = await startServer((request, response) => {
      const key = String(request.headers['x-key']);
      response.writeHead(Number(request.path.slice(1)), { 'content-type': 'application/json' });
      response.end(JSON.stringify({ [`in a key ${key}`]: [`in ${key} text`], long: `${'x'.repeat(3980)}${key}` }));
    });
    make({ readSecrets: async () => new Map([['k', { value: 'c4nary-value', hosts: null }]]) });
    const headers = { 'x-key': '{{secret:k}}' };
    for (const status of [200, 400, 503]) {
      const tool = toolOf({ type: 'http', endpoint: `${server.url}/${status}`, headers });
      const outcome = await tools.execute(tool, attemptOf({}));
      assert.equal(server.seen.at(-1)?.headers['x-key'], 'c4nary-value');
      assert.doesNotMatch(JSON.stringify(outcome), /c4n/);
      assert.match(JSON.stringify(outcome), /in \[secret\] text/);
    }
    await server.close();
  });

  it('gives secrets to the environment of a server, and takes them out of its answers and last words', async () => {
    make({ readSecrets: async () => new Map([['k', { value: 'c4nary-value', hosts: null }]]) });
    const env = { OWN: '{{secret:k}}' };
    const said = await tools.execute(toolOf({ type: 'mcp_stdio', ...ODD_SERVER, env }, 'environment'), attemptOf({}));
    assert.equal((outputOf(said) as Record<string, string>)['OWN'], '[secret]');
    const refusing = toolOf({ type: 'mcp_stdio', ...ODD_SERVER, env: { ...env, ODD_REFUSE: '{{secret:k}}' } });
    assert.match(messageOf(await tools.execute(refusing, attemptOf({}))), /no licence found for \[secret\]/);
    const imported = await tools.listTools('t', { type: 'mcp_stdio', ...ODD_SERVER, env }, false);
    assert.doesNotMatch(JSON.stringify(imported), /c4nary/);
    assert.deepEqual(imported[0]?.transport.type === 'mcp_stdio' && imported[0].transport.env, env);
    const unusable = { type: 'mcp_stdio' as const, ...ODD_SERVER, env: { ODD_REFUSE: '{{secret:k}}' } };
    await assert.rejects(tools.listTools('t', unusable, false), /no licence found for \[secret\]/);
  });

  it('cuts a long message between two characters, never within one', async () => {
    for (const before of ['', 'a']) {
      const server = await startServer((_request, response) => response.writeHead(400).end(before + '😀'.repeat(5000)));
      const outcome = await tools.execute(toolOf({ type: 'http', endpoint: server.url }), attemptOf({}));
      assert.ok(messageOf(outcome).isWellFormed(), before);
      assert.ok(messageOf(outcome).length < 10_000);
      await server.close();
    }
  });

  it('names a secret that is not set or cannot be decrypted, and sends nothing', async () => {
    const server = await startServer((_request, response) => response.end());
    const tool = toolOf({ type: 'http', endpoint: server.url, headers: { 'x-key': '{{secret:a}} {{ secret:k }}' } });
    make({ readSecrets: async () => new Map([['a', { value: 'c4nary-value', hosts: null }]]) });
    const missing = await tools.execute(tool, attemptOf({}));
    assert.deepEqual([briefly(missing), messageOf(missing)], ['error secret-missing', 'The secret "k" is not set.']);
    make({ readSecrets: () => Promise.reject(new SecretUnreadableError('k', 'its key is gone')) });
    assert.equal(briefly(await tools.execute(tool, attemptOf({}))), 'error secret-unreadable');
    make();
    assert.equal(briefly(await tools.execute(tool, attemptOf({}))), 'error secret-missing');
    assert.equal(server.seen.length, 0);
    await server.close();
  });

  it('follows no redirect with a secret that may not be sent there any more, and reads its hosts again only there', async () => {
    let hosts: string[] = [];
    let changed = () => undefined as void;
    const server = await startServer(({ path }, response) => {
      if (path === '/to') return response.end('"there"');
      changed();
      return response.writeHead(307, { location: '/to' }).end();
    });
    let reads = 0;
    const read = async () => {
      reads += 1;
      return new Map([['k', { value: 'c4nary-value', hosts }]]);
    };
    make({ readSecrets: read });
    const call = (path: string, change = () => undefined as void) => {
      hosts = ['127.0.0.1'];
      changed = change;
      reads = 0;
      const headers = { 'x-key': '{{secret:k}}' };
      return tools.execute(toolOf({ type: 'http', endpoint: `${server.url}${path}`, headers }), attemptOf({}));
    };
    assert.deepEqual([outputOf(await call('/to')), reads], ['there', 1]);
    assert.deepEqual([outputOf(await call('/from')), reads], ['there', 2]);
    const seen = server.seen.length;
    assert.equal(briefly(await call('/from', () => void (hosts = ['example.com']))), 'error egress-refused');
    make({ readSecrets: () => (reads > 0 ? Promise.reject(new Error('no database')) : read()) });
    assert.equal(briefly(await call('/from')), 'lost lost');
    assert.deepEqual(
      server.seen.slice(seen).map(({ path }) => path),
      ['/from', '/from'],
    );
    await server.close();
  });

  it('follows redirects of another origin, which has no secret, and none there with a secret in its address', async () => {
    const other = await startServer(({ path, headers }, response) => {
      if (path === '/to') return response.end(JSON.stringify(headers['x-key'] ?? 'nothing'));
      return response.writeHead(307, { location: path === '/told' ? '/to?of=c4nary-value' : '/to' }).end();
    });
    const server = await startServer(({ path }, response) =>
      response.writeHead(307, { location: `${other.url}${path}` }).end(),
    );
    make({ readSecrets: async () => new Map([['k', { value: 'c4nary-value', hosts: [new URL(server.url).host] }]]) });
    const headers = { 'x-key': '{{secret:k}}' };
    const call = (path: string) =>
      tools.execute(toolOf({ type: 'http', endpoint: `${server.url}${path}`, headers }), attemptOf({}));
    assert.equal(outputOf(await call('/from')), 'nothing');
    assert.equal(briefly(await call('/told')), 'error egress-refused');
    await Promise.all([server.close(), other.close()]);
  });

  it('may be retried when the secrets cannot be read just now, and does not say why', async () => {
    make({ readSecrets: () => Promise.reject(new Error('select value from')) });
    const tool = toolOf({ type: 'http', endpoint: 'https://example.com', headers: { 'x-key': '{{secret:k}}' } });
    const outcome = await tools.execute(tool, attemptOf({}));
    assert.equal(briefly(outcome), 'unreached secrets');
    assert.doesNotMatch(messageOf(outcome), /select/);
  });

  it('leaves a call of a transport that it does not know to others, and its work elsewhere for a bounded time', async () => {
    make();
    const tool = toolOf({ type: 'newer' } as never);
    const said = { code: 'unknown-transport', message: 'The transport "newer" is not known here.' };
    const { kind, unsent, ...more } = (await tools.execute(tool, attemptOf({}))) as UnreachedOutcome;
    assert.deepEqual([kind, unsent, more], ['unreached', true, { ...said, retryAfterMs: 5000 }]);
    assert.equal(briefly(await tools.cancel(tool, attemptOf({}))), 'unreached unknown-transport');
    assert.equal(briefly(await tools.readResource(tool, 'a:b', attemptOf({}))), 'unreached unknown-transport');
    let remote: RemoteWork = { task: 7 };
    for (let look = 1; look <= LIMITS.unsentRetries; look++) {
      const outcome = await tools.execute(tool, attemptOf({}, { remote }));
      assert.ok(outcome.kind === 'elsewhere' && outcome.waitMs === 1000 * 2 ** (look - 1));
      ({ remote } = outcome);
    }
    const last = await tools.execute(tool, attemptOf({}, { remote }));
    assert.deepEqual(last, { kind: 'error', origin: 'drover', ...said, remote: { task: 7 } });
  });

  it('refuses a command that is not listed, at registration, import and call', async () => {
    make({ stdioCommands: ['uvx'] });
    const transport = { type: 'mcp_stdio' as const, ...ODD_SERVER };
    const refused = (error: unknown) =>
      error instanceof DroverError && error.status === 403 && /DROVER_STDIO_COMMANDS/.test(error.message);
    assert.throws(() => tools.checkTransport(transport), refused);
    await assert.rejects(() => tools.listTools('tenant-1', { type: 'mcp_stdio', ...ODD_SERVER }, true), refused);
    const outcome = await tools.execute(toolOf(transport, 'text'), attemptOf({}));
    assert.equal(briefly(outcome), 'error not-allowed');
    assert.doesNotThrow(() => tools.checkTransport({ type: 'http', endpoint: 'https://example.com' }));
    assert.doesNotThrow(() => tools.checkTransport({ type: 'mcp_stdio', command: 'uvx' }));
  });

  it('takes an output beyond its limit for an error', async () => {
    make();
    const tool = toolOf({ type: 'mcp_stdio', ...ODD_SERVER }, 'large');
    const most = LIMITS.toolOutputBytes;
    assert.equal(briefly(await tools.execute(tool, attemptOf({ bytes: most }))), 'succeeded');
    const outcome = await tools.execute(tool, attemptOf({ bytes: most + 1 }));
    assert.equal(briefly(outcome), 'error output-too-large');
  });

  it('takes an output of more values than may be for an error, before it costs much', async () => {
    let type = 'application/json';
    const body = `[${'{},'.repeat(3_000_000)}{}]`;
    const server = await startServer((_request, response) =>
      response.writeHead(200, { 'content-type': type }).end(body),
    );
    make();
    const http = toolOf({ type: 'http', endpoint: server.url });
    const mcp = toolOf({ type: 'mcp_stdio', ...ODD_SERVER }, 'crowd');
    const crowd = (values: number) => tools.execute(mcp, attemptOf({ values }));
    assert.equal(briefly(await crowd(LIMITS.jsonValues - 10)), 'succeeded');
    const before = cpuMs();
    for (const outcome of [await tools.execute(http, attemptOf({})), await crowd(LIMITS.jsonValues + 10)]) {
      assert.equal(briefly(outcome), 'error output-too-large');
      assert.match(messageOf(outcome), /more than 200000 values/);
    }
    assert.equal(briefly(await crowd(LIMITS.jsonValues * 2)), 'error output-too-large');
    type = 'text/plain';
    assert.equal(outputOf(await tools.execute(http, attemptOf({}))), body);
    const spent = cpuMs() - before;
    assert.ok(spent < 1500, `${spent} ms`);
    await server.close();
  });

  it('measures a text by its own bytes, and anything else by its JSON', async () => {
    let answer = { type: 'text/plain', body: '' };
    const server = await startServer((_request, response) =>
      response.writeHead(200, { 'content-type': answer.type }).end(answer.body),
    );
    make();
    const tool = toolOf({ type: 'http', endpoint: server.url });
    const most = LIMITS.toolOutputBytes;
    for (const character of ['x', '"', '\n', '\u0001']) {
      answer = { type: 'text/plain', body: character.repeat(most) };
      assert.equal(outputOf(await tools.execute(tool, attemptOf({}))), answer.body);
    }
    answer.body = 'x'.repeat(most + 1);
    const tooLong = await tools.execute(tool, attemptOf({}));
    assert.equal(briefly(tooLong), 'error egress-too-large');
    assert.ok(tooLong.kind === 'error' && MADE_THOUGH_FAILED.includes(tooLong.code), 'it was made');
    answer = { type: 'application/json', body: JSON.stringify(['x'.repeat(most - 4)]) };
    assert.equal(briefly(await tools.execute(tool, attemptOf({}))), 'succeeded');
    answer.body = `["${'x'.repeat(most - 1_000_000)}",${Array(150_000).fill('1e20').join(',')}]`;
    assert.equal(briefly(await tools.execute(tool, attemptOf({}))), 'error output-too-large');
    await server.close();
  });

  it('gives a number beyond those of a double as text, or says that it is too large', async () => {
    const server = await startServer((_request, response) => response.end('{"n":1e999}'));
    const answer = { kind: 'succeeded', output: { n: Infinity } };
    make({ builtins: { recall: () => Promise.resolve(answer) } as unknown as DomainFunctions });
    const outcome = await tools.execute(toolOf({ type: 'http', endpoint: server.url }), attemptOf({}));
    assert.deepEqual(outputOf(outcome), { n: '1e999' });
    // As the SDK of MCP has read it.
    const read = await tools.execute(toolOf({ type: 'builtin' }, 'recall'), attemptOf({ query: 'x' }));
    assert.equal(briefly(read), 'error bad-output');
    assert.match(messageOf(read), /too large/);
    await server.close();
  });

  it('gives only what can be stored: no NUL, no lone surrogate, nothing nested without end', async () => {
    let body = JSON.stringify({ 'a\u0000': '\ud800' });
    const server = await startServer((_request, response) =>
      response.writeHead(200, { 'content-type': 'application/json' }).end(body),
    );
    make();
    const tool = toolOf({ type: 'http', endpoint: server.url });
    const cleaned = await tools.execute(tool, attemptOf({}));
    assert.deepEqual(outputOf(cleaned), { 'a\ufffd': '\ufffd' });
    assert.equal('replaced' in cleaned && cleaned.replaced, 2);
    for (const levels of [LIMITS.toolOutputDepth + 2, 2500, 100_000]) {
      body = '['.repeat(levels) + ']'.repeat(levels);
      assert.equal(briefly(await tools.execute(tool, attemptOf({}))), 'error bad-output');
    }
    body = '['.repeat(LIMITS.toolOutputDepth) + ']'.repeat(LIMITS.toolOutputDepth);
    const kept = outputOf(await tools.execute(tool, attemptOf({})));
    assert.equal(textOfOutput(kept), body);
    assert.match(textOfOutput([[kept]]), /nested too deeply/);
    await server.close();
  });

  it('is not held up by a transport that forgets the time', async () => {
    make({ egress: { ...EGRESS, fetch: () => new Promise(() => undefined) } });
    const tool = toolOf({ type: 'http', endpoint: 'https://example.com' });
    assert.equal(briefly(await tools.execute(tool, attemptOf({}, { timeoutMs: 50 }))), 'lost timeout');
  });

  it('knows that a remote agent which says when to come again has done nothing', async () => {
    const server = await startServer((_request, response) => response.writeHead(503, { 'retry-after': '2' }).end());
    make();
    const outcome = await tools.execute(toolOf({ type: 'a2a', endpoint: server.url }), attemptOf({ message: 'x' }));
    assert.equal(briefly(outcome), 'unreached http-503');
    assert.equal(outcome.kind === 'unreached' && outcome.retryAfterMs, 2000);
    await server.close();
  });

  it('sends nothing when the caller has stopped already', async () => {
    const server = await startServer((_request, response) => response.end());
    make();
    const tool = toolOf({ type: 'http', endpoint: server.url });
    const outcome = await tools.execute(tool, attemptOf({}, { signal: AbortSignal.abort() }));
    assert.equal(briefly(outcome), 'aborted aborted');
    assert.equal(server.seen.length, 0);
    await server.close();
  });

  it('tells of a fault of ours, but not in the outcome', async () => {
    const faults: unknown[] = [];
    const fault = new Error('select * from secrets');
    make({ egress: { ...EGRESS, fetch: () => Promise.reject(fault) }, onFault: (error) => faults.push(error) });
    const outcome = await tools.execute(toolOf({ type: 'http', endpoint: 'https://example.com' }), attemptOf({}));
    assert.equal(briefly(outcome), 'lost internal');
    assert.doesNotMatch(messageOf(outcome), /select/);
    assert.deepEqual(faults, [fault]);
  });

  it('knows that a call was made whose answer cannot be searched for secrets, and tells nobody of its words', async () => {
    const faults: unknown[] = [];
    const answer = {
      kind: 'succeeded' as const,
      output: 1,
      get content(): never {
        throw new Error('c4nary-value');
      },
    };
    const builtins = { recall: () => Promise.resolve(answer) } as unknown as DomainFunctions;
    make({ builtins, onFault: (error) => faults.push(error) });
    const outcome = await tools.execute(toolOf({ type: 'builtin' }, 'recall'), attemptOf({ query: 'x' }));
    assert.equal(briefly(outcome), 'error bad-output');
    assert.deepEqual(faults, []);
  });

  describe('importServer', () => {
    it('lists every tool of every page under names that a model can take', async () => {
      make();
      const imported = await tools.listTools('tenant-1', { type: 'mcp_stdio', ...ODD_SERVER }, false);
      const odd = imported.filter((tool) => tool.name.startsWith('odd'));
      assert.equal(imported.length, 22);
      assert.deepEqual(
        odd.map((tool) => tool.name),
        ['odd_name_1', 'odd_name_1_2'],
      );
      const transports = odd.map(({ transport }) => (transport.type === 'mcp_stdio' ? transport.tool : ''));
      assert.deepEqual(transports, ['odd name/1', 'odd_name_1']);
      const [first] = odd;
      assert.ok(first);
      const outcome = await tools.execute({ ...toolOf(first.transport), ...first }, attemptOf({ x: 1 }));
      assert.deepEqual(outputOf(outcome), { x: 1 });
    });

    it('believes what a server says of its tools only where it is trusted', async () => {
      make();
      const said = async (trusted: boolean) => {
        const imported = await tools.listTools('tenant-1', { type: 'mcp_stdio', ...ODD_SERVER }, trusted);
        const pick = (name: string) => imported.find((tool) => tool.name === name);
        return ['text', 'json', 'crash', 'pid'].map((name) => [pick(name)?.risk_level, pick(name)?.annotations]);
      };
      assert.deepEqual(await said(true), [
        ['READ_ONLY', { readOnlyHint: true }],
        ['WRITE_LOW_RISK', { idempotentHint: true, destructiveHint: false }],
        ['WRITE_HIGH_RISK', { destructiveHint: true, openWorldHint: true }],
        ['WRITE_LOW_RISK', {}],
      ]);
      assert.deepEqual(
        await said(false),
        Array.from({ length: 4 }, () => ['WRITE_LOW_RISK', {}]),
      );
    });

    it('takes no more of a server than may be kept, and no longer descriptions than tools have', async () => {
      let description = 'd'.repeat(30_000);
      let pages = 1;
      let listed = 0;
      const server = await startServer(({ method, body }, response) => {
        if (method !== 'POST') return response.writeHead(405).end();
        const { id, method: asked, params } = JSON.parse(body);
        if (id === undefined) return response.writeHead(202).end();
        const serverInfo = { name: 'fake', version: '1' };
        const hello = { protocolVersion: params?.protocolVersion, capabilities: { tools: {} }, serverInfo };
        if (asked !== 'initialize') listed += 1;
        const tool = { name: `t${listed}`, description, inputSchema: { type: 'object' } };
        const page = { tools: [tool], ...(listed < pages && { nextCursor: String(listed) }) };
        response.writeHead(200, { 'content-type': 'application/json' });
        return response.end(JSON.stringify({ jsonrpc: '2.0', id, result: asked === 'initialize' ? hello : page }));
      });
      make();
      const list = () => tools.listTools('tenant-1', { type: 'mcp_http', endpoint: `${server.url}/mcp` }, true);
      assert.equal((await list())[0]?.description.length, 20_000);
      [description, pages, listed] = ['d'.repeat(3_000_000), 99, 0];
      await assert.rejects(list(), /come to more than 10485760 bytes/);
      assert.equal(listed, 4);
      await server.close();
    });

    it('is looked at again where it says in the answer to a call that its tools have changed', async () => {
      const changed = { jsonrpc: '2.0', method: 'notifications/tools/list_changed' };
      const server = await startServer(({ method, body }, response) => {
        if (method !== 'POST') return response.writeHead(405).end();
        const { id, method: asked, params } = JSON.parse(body);
        if (id === undefined) return response.writeHead(202).end();
        const serverInfo = { name: 'fake', version: '1' };
        const hello = { protocolVersion: params?.protocolVersion, capabilities: { tools: { listChanged: true } } };
        const results: Record<string, object> = {
          initialize: { ...hello, serverInfo },
          'tools/list': { tools: [{ name: 'new', inputSchema: { type: 'object', pattern: '(' } }] },
          'tools/call': { content: [{ type: 'text', text: 'done' }] },
        };
        const answer = { jsonrpc: '2.0', id, result: results[asked] };
        const said = asked === 'tools/call' ? [changed, answer] : [answer];
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        return response.end(said.map((each) => `data: ${JSON.stringify(each)}\n\n`).join(''));
      });
      const looks: unknown[] = [];
      make({
        onToolsChanged: async ({ listed }) =>
          void looks.push(...(listed ?? []).map(({ name, fault }) => [name, fault])),
        onFault: (error) => looks.push(error),
      });
      const tool = toolOf({ type: 'mcp_http', endpoint: `${server.url}/mcp`, tool: 'old' });
      assert.equal(outputOf(await tools.execute(tool, attemptOf({}))), 'done');
      await waitUntil('it is looked at', () => looks.length > 0);
      assert.deepEqual(looks, [['new', undefined]], 'schemas are compared, none is compiled');
      const { type, endpoint } = { type: 'mcp_http' as const, endpoint: `${server.url}/mcp` };
      const [imported] = await tools.listTools('tenant-1', { type, endpoint }, false);
      assert.match(imported?.fault ?? '', /^Its input schema cannot be used: /);
      await server.close();
    });

    it('says why a server cannot be imported', async () => {
      make();
      await assert.rejects(
        () => tools.listTools('tenant-1', { type: 'mcp_stdio', ...ODD_SERVER, env: { ODD_REFUSE: '1' } }, true),
        (error: unknown) =>
          error instanceof DroverError && error.status === 422 && /no licence found/.test(error.message),
      );
    });
  });
});

describe('uniqueName', () => {
  it('gives a legal name for any text, and never the same one twice', () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(fc.string(), fc.constantFrom('a', 'a b', 'x'.repeat(80)))), (originals) => {
        const taken = new Set<string>();
        const names = originals.map((original) => uniqueName(original, taken));
        for (const name of names) assert.match(name, /^[a-zA-Z0-9_-]{1,64}$/);
        assert.equal(new Set(names).size, names.length);
      }),
    );
  });

  it('leaves a legal name as it is', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[a-zA-Z0-9_-]{1,64}$/), (name) =>
        assert.equal(uniqueName(name, new Set()), name),
      ),
    );
  });
});
