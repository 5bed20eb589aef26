import assert from 'node:assert/strict';
import { request as httpRequest } from 'node:http';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { LIMITS } from '../../core/limits.ts';
import { newId } from '../../lib/new-id.ts';
import { cpuMs } from '../support/cpu-time.ts';
import { startTestApi } from '../support/api.ts';
import type { Answer, Call, TestApi } from '../support/api.ts';
import { newName } from '../support/new-name.ts';

describe('a bad request', () => {
  let api: TestApi;
  before(async () => {
    api = await startTestApi();
  });
  after(() => api.close());

  const create = (call: Call) => api.call('POST', '/v1/agents', call);

  /** A problem document with this status, and this fault where one is given. */
  const assertProblem = (answer: Answer, status: number, fault?: { path: string; message: RegExp } | RegExp) => {
    assert.equal(answer.status, status, answer.text);
    assert.match(answer.headers.get('content-type') ?? '', /^application\/problem\+json/);
    assert.equal(answer.json.status, status);
    for (const member of ['type', 'title', 'detail', 'instance', 'code', 'request_id']) {
      assert.equal(typeof answer.json[member], 'string', `${member} is missing`);
    }
    if (fault instanceof RegExp) assert.match(answer.json.detail, fault);
    else if (fault) {
      const messages = (answer.json.errors ?? []).filter((each: { path: string }) => each.path === fault.path);
      assert.equal(messages.length, 1, answer.text);
      assert.match(messages[0].message, fault.message);
    }
  };

  describe('in its body', () => {
    it('with an unknown field, at any depth, is 400 and names it', async () => {
      const config = { max_turns: 3, max_turn: 3 };
      const answer = await create({ body: { name: 'a', execution_config: config, colour: 'red' } });
      assertProblem(answer, 400, { path: 'body.execution_config.max_turn', message: /not a known field/ });
      assertProblem(answer, 400, { path: 'body.colour', message: /not a known field/ });
    });

    it('with an unknown field inside an alternative is 400 and names it', async () => {
      const answer = await create({ body: { name: 'a', system_prompt: { role: 'r', rule: 'x' } } });
      assertProblem(answer, 400, { path: 'body.system_prompt.rule', message: /not a known field/ });
    });

    it('without a field that takes several forms is 400 and says that it is required', async () => {
      const answer = await api.call('POST', `/v1/runs/${newId()}/replay`, { body: {} });
      assertProblem(answer, 400, { path: 'body.checkpoint_id', message: /^is required$/ });
    });

    it('with an id where a word will do, too, is 400 and names the word', async () => {
      for (const checkpoint_id of ['nope', 7, null]) {
        const answer = await api.call('POST', `/v1/runs/${newId()}/replay`, { body: { checkpoint_id } });
        assertProblem(answer, 400, { path: 'body.checkpoint_id', message: /^must be a UUID, or start$/ });
      }
    });

    it('of the wrong type is 400 and says what was expected', async () => {
      assertProblem(await create({ body: { name: 7 } }), 400, { path: 'body.name', message: /expected string/ });
      assertProblem(await create({ body: [] }), 400, { path: 'body', message: /expected object/ });
      assertProblem(await create({ raw: 'null' }), 400, { path: 'body', message: /expected object/ });
      assertProblem(await create({ raw: '"text"' }), 400, { path: 'body', message: /expected object/ });
    });

    it('without a required field is 400, also where there is no body at all', async () => {
      assertProblem(await create({ body: {} }), 400, { path: 'body.name', message: /required/ });
      assertProblem(await create({}), 400, { path: 'body.name', message: /required/ });
    });

    it('that is no JSON is 400 and says where, without repeating it', async () => {
      const answer = await create({ raw: '{"name": "hunter2", }' });
      assertProblem(answer, 400, /not valid JSON.*position \d+/);
      assert.doesNotMatch(answer.text, /hunter2/);
    });

    it('in another encoding than UTF-8 is 400: its letters would be lost', async () => {
      const raw = Buffer.from(JSON.stringify({ name: 'café' }), 'latin1');
      for (const type of ['application/json', 'application/json; charset=iso-8859-1']) {
        assertProblem(await create({ raw, headers: { 'content-type': type } }), 400, /not UTF-8/);
      }
    });

    it('of a request that takes none is 400, and nothing is done', async () => {
      const name = newName();
      const { id } = (await create({ body: { name } })).json;
      const answer = await api.call('DELETE', `/v1/agents/${id}`, { body: { dry_run: true } });
      assertProblem(answer, 400, { path: 'body.dry_run', message: /not a known field/ });
      assert.equal((await api.call('GET', `/v1/agents/${id}`)).json.status, 'active');
      assert.equal((await api.call('DELETE', `/v1/agents/${id}`, { body: {} })).status, 204);
    });

    it('that would reach for a prototype is 400', async () => {
      assertProblem(await create({ raw: '{"name":"a","metadata":{"__proto__":{"x":1}}}' }), 400, /key `__proto__`/);
    });

    it('with a number beyond those of a double is 400, wherever it stands, with a key or without', async () => {
      const raw = '{"name":"a","llm_config":{"api_kwargs":{"deep":[{"n":-1e999}]}}}';
      assertProblem(await create({ raw }), 400, /number that is too large/);
      const again = await create({ raw, headers: { 'idempotency-key': newId() } });
      assertProblem(again, 400, /number that is too large/);
    });

    it('with an integer that would be rounded is 400 and says where; bounds in schemas may be rounded', async () => {
      const config = (inside: string) => `{"name":"${newName()}","llm_config":{"api_kwargs":{"deep":[${inside}]}}}`;
      const path = 'body.llm_config.api_kwargs.deep.1.n';
      for (const digits of ['9007199254740993', '-12345678901234567890', '36028797018963968']) {
        const answer = await create({ raw: config(`0,{"n":${digits}}`) });
        assertProblem(answer, 400, { path, message: /do not keep digit by digit; send it as a string/ });
      }
      const held =
        '1e20,9007199254740992,1152921504606847000,9007199254740991,0.12345678901234567890,"9007199254740993"';
      const { status, text } = await create({ raw: config(held) });
      assert.equal(status, 201, text);

      const tool = (schema: string) => {
        const input = `{"type":"object","properties":{"n":${schema}}}`;
        const rest = '"name":"of_large_integers","description":"d","transport":{"type":"client"}';
        return api.call('POST', '/v1/tools', { raw: `{${rest},"input_schema":${input}}` });
      };
      const bounded = await tool('{"type":"integer","maximum":9223372036854775807}');
      assert.equal(bounded.status, 201, bounded.text);
      const path2 = 'body.input_schema.properties.n.const';
      assertProblem(await tool('{"const":9223372036854775807}'), 400, { path: path2, message: /send it as a string/ });
    });

    it('that lets people or clients take longer than a year is 400', async () => {
      for (const field of ['approval_timeout_seconds', 'client_tool_timeout_seconds']) {
        const answer = await create({ body: { name: 'a', execution_config: { [field]: 1e12 } } });
        assertProblem(answer, 400, { path: `body.execution_config.${field}`, message: /31536000/ });
      }
    });

    it('that names a thread by nothing, or by too long a name, is 400', async () => {
      const { json } = await create({ body: { name: newName() } });
      for (const thread_id of ['ext:', `ext:${'x'.repeat(201)}`]) {
        const answer = await api.call('POST', `/v1/agents/${json.id}/runs`, { body: { thread_id } });
        assertProblem(answer, 400, { path: 'body.thread_id', message: /must be a UUID, or ext:/ });
      }
    });

    it('nested thousands of levels deep is 400', async () => {
      const depth = 100_000;
      const raw = `{"name":"a","metadata":{"x":${'['.repeat(depth)}${']'.repeat(depth)}}}`;
      assertProblem(await create({ raw }), 400, /nested deeper/);
    });

    it('of more than 10 MiB is 413, compressed or not', async () => {
      const huge = JSON.stringify({ name: 'a', description: 'x'.repeat(10 * 1024 * 1024) });
      assertProblem(await create({ raw: huge }), 413, /10485760 bytes/);
      const packed = { 'content-encoding': 'gzip' };
      assertProblem(await create({ raw: gzipSync(huge), headers: packed }), 413, /10485760 bytes/);
    });

    it('of up to 10 MiB is read', async () => {
      const large = JSON.stringify({ name: 'a', description: 'x'.repeat(10 * 1024 * 1024 - 100) });
      assertProblem(await create({ raw: large }), 400, { path: 'body.description', message: /too big/i });
    });

    it('of more values than may be is 413 before it is parsed, and strings do not count', async () => {
      const packed = { 'content-encoding': 'gzip' };
      for (const value of ['{}', '[]', '0', '"a"']) {
        const raw = gzipSync(
          `[${Array.from({ length: LIMITS.jsonValues + 1 })
            .fill(value)
            .join(',')}]`,
        );
        assertProblem(await create({ raw, headers: packed }), 413, /more than 200000 values/);
      }
      const description = '{,['.repeat(LIMITS.jsonValues);
      const answer = await create({ body: { name: 'a', description } });
      assertProblem(answer, 400, { path: 'body.description', message: /too big/i });
    });

    it('of as many values as may be costs less than a second', async () => {
      const raw = `[${'{},'.repeat(LIMITS.jsonValues / 2 - 2)}9007199254740991]`;
      const before = cpuMs();
      assertProblem(await create({ raw }), 400);
      const spent = cpuMs() - before;
      assert.ok(spent < 1000, `${spent} ms`);
    });

    it('to a webhook that there is not is 404, and is not even read', async () => {
      for (const raw of ['no JSON', `[${'{},'.repeat(LIMITS.jsonValues)}{}]`]) {
        assertProblem(await api.call('POST', `/v1/hooks/${'A'.repeat(43)}`, { key: null, raw }), 404, /webhook/);
      }
    });

    it('of another content type, encoding or none is 415', async () => {
      for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x']) {
        assertProblem(
          await create({ raw: '{"name":"a"}', headers: { 'content-type': type } }),
          415,
          /application\/json/,
        );
      }
      const odd = { 'content-encoding': 'zstd' };
      assertProblem(await create({ raw: '{"name":"a"}', headers: odd }), 415, /gzip/);
    });

    it('compressed and corrupt, or cut short, is 400, wherever a body is read', async () => {
      const packings = { gzip: gzipSync, deflate: deflateSync, br: brotliCompressSync };
      for (const [encoding, pack] of Object.entries(packings)) {
        const packed = pack(JSON.stringify({ name: newName(), description: 'some text '.repeat(40) }));
        const headers = { 'content-encoding': encoding };
        const corrupt = Buffer.concat([packed.subarray(0, 4), Buffer.alloc(100, 0xff), packed.subarray(4)]);
        for (const raw of [Buffer.from('no such thing'), corrupt, packed.subarray(0, packed.length - 4)]) {
          assertProblem(await create({ raw, headers }), 400, /decompressed/);
        }
        assert.equal((await create({ raw: packed, headers })).status, 201);
      }
      const form = { 'content-type': 'application/x-www-form-urlencoded', origin: api.url };
      const signIn = (raw: string, headers: Record<string, string> = {}) =>
        api.call('POST', '/admin/queues/sign-in', { key: null, raw, headers: { ...form, ...headers } });
      assertProblem(await signIn('no such thing', { 'content-encoding': 'gzip' }), 400, /decompressed/);
      assertProblem(await signIn(`key=${'x'.repeat(10_000)}`), 413);
    });

    it('takes +json types and charsets as JSON', async () => {
      for (const type of ['application/json; charset=utf-8', 'application/merge-patch+json']) {
        const answer = await create({ raw: JSON.stringify({ name: newName() }), headers: { 'content-type': type } });
        assert.equal(answer.status, 201, answer.text);
      }
    });

    it('with NUL or half a surrogate pair is kept with U+FFFD in their place', async () => {
      const answer = await create({ raw: '{"name":"a\\u0000b","metadata":{"k\\u0000":"x\\ud800y"}}' });
      assert.equal(answer.status, 201, answer.text);
      const { json } = await api.call('GET', `/v1/agents/${answer.json.id}`);
      assert.equal(json.name, 'a\uFFFDb');
      assert.deepEqual(json.metadata, { 'k\uFFFD': 'x\uFFFDy' });
    });

    it('with NUL or half a surrogate pair is noted by the events of what it says', async () => {
      const agent = (await create({ body: { name: newName() } })).json.id;
      const post = async (path: string, raw: string) => {
        const { json, status, text } = await api.call('POST', path, { raw });
        assert.equal(status, 202, text);
        return json;
      };
      const inputs = async (run: string) => {
        const { events } = (await api.call('GET', `/v1/runs/${run}/events`)).json;
        const said = events.filter(({ type }: { type: string }) => /^(turn\.started|message\.queued)$/.test(type));
        return said.map(({ payload }: { payload: { input: unknown } }) => payload.input);
      };
      const { run_id: run } = await post(`/v1/agents/${agent}/runs`, '{"input":{"message":"a\\u0000b\\udc00"}}');
      assert.deepEqual(await inputs(run), [{ message: 'a\uFFFDb\uFFFD', replaced: 2 }]);
      const { run_id: clean } = await post(`/v1/agents/${agent}/runs`, '{"input":{"message":"\\ufffd"}}');
      assert.deepEqual(await inputs(clean), [{ message: '\uFFFD' }]);
      const chat = (more: string) =>
        post('/agent/chat', `{"agent_id":"${agent}","user_id":"ada","message":"a\\u0000"${more}}`);
      const { session_id: session } = await chat('');
      await chat(`,"session_id":"${session}"`);
      const newest = async () => (await api.call('GET', `/v1/runs?thread=${session}&limit=1`)).json.runs[0].id;
      const noted = { message: 'a\uFFFD', replaced: 1 };
      const cancelled = await newest();
      assert.deepEqual(await inputs(cancelled), [noted, noted]);
      await api.call('POST', `/v1/runs/${cancelled}/cancel`, { body: {} });
      await chat(`,"session_id":"${session}"`);
      assert.deepEqual(await inputs(await newest()), [noted, noted], 'the one that waited begins the next run');
    });

    it('with NUL or half a surrogate pair is noted by the event of a signal, too', async () => {
      const agent = (await create({ body: { name: newName() } })).json.id;
      const { json } = await api.call('POST', `/v1/agents/${agent}/runs`, { body: { input: { message: 'hi' } } });
      const signal = async (raw: string) => {
        const { status, text } = await api.call('POST', `/v1/runs/${json.run_id}/signals`, { raw });
        assert.equal(status, 202, text);
      };
      await signal('{"type":"user","payload":{"message":"a\\u0000b\\udc00"}}');
      await signal('{"type":"webhook","payload":{"k\\u0000":1}}');
      await signal('{"type":"user","payload":{"message":"\\ufffd"}}');
      const { events } = (await api.call('GET', `/v1/runs/${json.run_id}/events?types=signal.received`)).json;
      assert.deepEqual(
        events.map(({ payload }: { payload: Record<string, unknown> }) => [payload['payload'], payload['replaced']]),
        [
          [{ message: 'a\uFFFDb\uFFFD' }, 2],
          [{ 'k\uFFFD': 1 }, 1],
          [{ message: '\uFFFD' }, undefined],
        ],
      );
    });
  });

  describe('in its path or query', () => {
    it('to a path that is not there is 404, with a key or without', async () => {
      assertProblem(await api.call('GET', '/v1/nothing'), 404, /\/v1\/nothing; \/openapi\.json/);
      assertProblem(await api.call('GET', '/v1/nothing', { key: null }), 404);
      assertProblem(await api.call('GET', '/V1/AGENTS'), 404);
    });

    it('with a method that the path does not take is 405 and says which it takes', async () => {
      for (const method of ['PUT', 'DELETE', 'PROPFIND']) {
        const answer = await api.call(method, '/v1/agents');
        assertProblem(answer, 405, new RegExp(`not ${method}`));
        assert.deepEqual((answer.headers.get('allow') ?? '').split(', ').toSorted(), ['GET', 'HEAD', 'POST']);
      }
    });

    it('with an id that is none, or is unknown, is 404', async () => {
      for (const id of ['x', '1', newId(), '%zz', 'constructor', "1'--", 'x'.repeat(5000)]) {
        assertProblem(await api.call('GET', `/v1/agents/${id}`), 404);
      }
    });

    it('with NUL, in whatever part, is 400', async () => {
      const urls = [
        `/v1/agents/%00`,
        '/v1/secrets/a%00b',
        '/v1/agents?cursor=%00',
        '/v1/tools?name=a%00b',
        '/v1/audit?target=%00',
        '/v1/audit?action=%00',
        '/v1/runs?a%00=b',
        '/%00',
        '/admin/queues/runs/%00',
      ];
      for (const url of urls) assertProblem(await api.call('GET', url), 400, /NUL/);
      assertProblem(await api.call('PUT', '/v1/secrets/a%00b', { body: { value: 'x' } }), 400, /NUL/);
    });

    it('with a URL or headers that are too long is 414 or 431, however long they are', async () => {
      for (const length of [LIMITS.urlBytes, 100_000, 400_000]) {
        const answer = await api.call('GET', `/v1/agents?cursor=${'x'.repeat(length)}`);
        if (length < 400_000) assertProblem(answer, 414, /16384 bytes/);
        else assertProblem(answer, 431, /131072 bytes/);
      }
      const fits = await api.call('GET', `/v1/agents?cursor=${'x'.repeat(LIMITS.urlBytes - 100)}`);
      assertProblem(fits, 400, { path: 'query.cursor', message: /too big/ });
      for (const length of [LIMITS.headerBytes, 400_000]) {
        assertProblem(await api.call('GET', '/healthz', { headers: { 'x-long': 'x'.repeat(length) } }), 431);
      }
      assert.equal((await api.call('GET', '/healthz', { headers: { 'x-long': 'x'.repeat(10_000) } })).status, 200);
    });

    it('with an unknown, malformed or excessive query parameter is 400', async () => {
      const wrong: [query: string, path: string, message: RegExp][] = [
        ['?colour=red', 'query.colour', /not a known field/],
        ['?limit=0', 'query.limit', /1 to 200/],
        ['?limit=201', 'query.limit', /1 to 200/],
        ['?limit=ten', 'query.limit', /1 to 200/],
        ['?limit=1e1', 'query.limit', /1 to 200/],
        ['?limit=1&limit=2', 'query.limit', /1 to 200/],
        ['?cursor=nonsense', 'query.cursor', /not a cursor/],
        [`?cursor=${Buffer.from('"x"').toString('base64url')}`, 'query.cursor', /not a cursor/],
        ['?status=gone', 'query.status', /expected one of/],
      ];
      for (const [query, path, message] of wrong) {
        assertProblem(await api.call('GET', `/v1/agents${query}`), 400, { path, message });
      }
    });

    it('with a time that is in no year from 1 to 9999 is 400, and one in any zone is taken', async () => {
      const beyond = ['0000-12-31T23:59:59Z', '0001-01-01T00:00:00+14:00', '9999-12-31T23:59:59-12:00'];
      const far = '2020-01-02T00:00:00+23:59';
      const task = (deadline: string) => ({ description: 'x', requirements: { deadline } });
      const made = await api.call('POST', '/v1/tasks', { body: task(far) });
      assert.deepEqual([made.status, made.json.deadline], [202, '2020-01-01T00:01:00.000Z'], made.text);
      const key = await api.call('POST', '/v1/api-keys', { body: { name: 'k', scopes: ['admin'], expires_at: far } });
      assert.ok(key.status < 500, key.text);
      for (const time of beyond) {
        const path = 'body.requirements.deadline';
        assertProblem(await api.call('POST', '/v1/tasks', { body: task(time) }), 400, { path, message: /year/ });
        const body = { name: 'k', scopes: ['admin'], expires_at: time };
        assertProblem(await api.call('POST', '/v1/api-keys', { body }), 400);
      }
      for (const list of [
        'runs?created_after=',
        'runs?created_before=',
        'audit?created_after=',
        'audit?created_before=',
      ]) {
        const status = async (time: string) => {
          return (await api.call('GET', `/v1/${list}${encodeURIComponent(time)}`)).status;
        };
        for (const time of beyond) assert.equal(await status(time), 400, list);
        for (const time of [far, '2020-01-02t00:00:00.5z']) assert.equal(await status(time), 200, list);
      }
      for (const time of [...beyond, far]) {
        const filter = { created_before: time };
        const answer = await api.call('POST', '/v1/runs/cancel', { body: { filter, dry_run: true } });
        assert.equal(answer.status, time === far ? 200 : 400, answer.text);
      }
    });
  });

  describe('in its credentials', () => {
    it('without a key is 401 and says how to send one', async () => {
      const answer = await api.call('GET', '/v1/agents', { key: null });
      assertProblem(answer, 401, /Authorization: Bearer/);
      assert.match(answer.headers.get('www-authenticate') ?? '', /^Bearer/);
    });

    it('with a wrong key, or another scheme, is 401 and does not repeat it', async () => {
      for (const authorization of [
        'Bearer wrong-key-123',
        'Basic d3Jvbmcta2V5LTEyMw==',
        'Bearer',
        `Bearer ${'x'.repeat(2000)}`,
      ]) {
        const answer = await api.call('GET', '/v1/agents', { key: null, headers: { authorization } });
        assertProblem(answer, 401);
        assert.match(answer.headers.get('www-authenticate') ?? '', /invalid_token/);
        assert.doesNotMatch(answer.text, /wrong-key-123/);
      }
    });

    it('without the scope is 403 and names it; the body is not even read', async () => {
      const made = await api.call('POST', '/v1/api-keys', { body: { name: 'reader', scopes: ['agents:read'] } });
      const { key } = made.json;
      assert.equal((await api.call('GET', '/v1/agents', { key })).status, 200);
      const answer = await create({ key, raw: 'no JSON' });
      assertProblem(answer, 403, /agents:write/);
      assert.equal(answer.json.scope, 'agents:write');
    });

    it('for a workspace that is not there is 404, for one that the key is not bound to 403', async () => {
      const { workspace_id: foreign } = await api.newTenant();
      for (const id of [foreign, newId(), 'x']) {
        assertProblem(
          await api.call('GET', '/v1/agents', { headers: { 'x-workspace-id': id } }),
          404,
          /X-Workspace-Id/,
        );
      }
      const { json: agent } = await create({ body: { name: newName() } });
      const { json: full } = await api.call('GET', `/v1/agents/${agent.id}`);
      const own = full.workspace_id;
      const bound = await api.call('POST', '/v1/api-keys', {
        body: { name: 'b', scopes: ['admin'], workspace_id: own },
      });
      const { key } = bound.json;
      assert.equal((await api.call('GET', '/v1/agents', { key, headers: { 'x-workspace-id': own } })).status, 200);
      assertProblem(await api.call('GET', '/v1/agents', { key, headers: { 'x-workspace-id': newId() } }), 403);
    });
  });

  it('that breaks off in its body leaves the server as it was', async () => {
    await new Promise<void>((resolve) => {
      const request = httpRequest(`${api.url}/v1/agents`, {
        method: 'POST',
        headers: { authorization: `Bearer ${api.key}`, 'content-type': 'application/json', 'content-length': '1000' },
      });
      request.on('error', () => resolve());
      request.write('{"name":', () => request.destroy(new Error('gone')));
    });
    assert.equal((await api.call('GET', '/healthz')).status, 200);
  });

  it('is answered by headers that tell browsers and caches to do nothing with it', async () => {
    const answer = await api.call('GET', '/v1/nothing');
    assert.equal(answer.headers.get('x-content-type-options'), 'nosniff');
    assert.match(answer.headers.get('content-security-policy') ?? '', /default-src 'none'/);
    assert.equal(answer.headers.get('cache-control'), 'no-store');
  });
});
