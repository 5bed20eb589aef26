import assert from 'node:assert/strict';
import { WebSocket } from 'ws';
import { ROUTES } from '../../api/routes.ts';
import { serve, type RunningApi } from '../../api/serve.ts';
import { loadConfig } from '../../config.ts';
import { newId } from '../../lib/new-id.ts';
import { openPlatform } from '../../modules/platform/open-platform.ts';
import { request } from '../support/api.ts';
import { exchange } from '../support/exchange.ts';
import { startServer, type LocalServer } from '../support/echo-server.ts';
import { text as say, use } from '../support/engine.ts';
import { startFakeAnthropic, type AnthropicReply } from '../support/fake-anthropic.ts';
import type { FakeServer } from '../support/fake-http.ts';
import { DOMAIN_MODE } from '../support/modes.ts';
import { openTestPlatform, type TestPlatform } from '../support/platform.ts';
import { overDatabase } from '../support/over-database.ts';
import { waitUntil } from '../support/wait-until.ts';
import { last, listen, typesOf, watchSession, type Frame } from '../support/watch-session.ts';
import { newName } from '../support/new-name.ts';

describe('the stream of a session', function () {
  let platform: TestPlatform;
  let model: FakeServer;
  let tools: LocalServer;
  let first: AnthropicReply;
  const verdicts: AnthropicReply[] = [];
  let answer: string;
  let agent: string;
  let env: Record<string, string>;
  let api: RunningApi | undefined;
  const sockets: WebSocket[] = [];

  const call = (method: string, path: string, body?: unknown) =>
    request(`${platform.url}${path}`, method, { key: platform.apiKey, ...(body === undefined ? {} : { body }) });
  const chat = async (message: string, more: Record<string, unknown> = {}): Promise<string> => {
    const made = await call('POST', '/agent/chat', { message, user_id: 'ada', agent_id: agent, ...more });
    assert.equal(made.status, 202, made.text);
    return made.json.session_id;
  };
  /** A session with a first turn that is over. */
  const begin = async (): Promise<string> => {
    first = say('hello');
    const session = await chat('hello');
    await waitUntil('the first turn is over', async () => (await status(session)) === 'completed');
    return session;
  };
  const status = async (session: string) => (await call('GET', `/agent/session/${session}`)).json.status;

  const watch = async (
    session: string,
    { url, after, id }: { url?: string | undefined; after?: number; id?: string } = {},
  ) => {
    const watcher = await watchSession({ url: url ?? platform.url ?? '', session, headers: headersOf(id), after });
    sockets.push(watcher.socket);
    return watcher;
  };
  const headersOf = (id = newId()) => ({ authorization: `Bearer ${platform.apiKey}`, 'x-request-id': id });
  /** All of a session's frames. */
  const readAll = async (session: string, ends: string): Promise<Frame[]> => {
    const watcher = await watch(session, { after: 0 });
    await watcher.until(`the session's log up to ${ends}`, last(ends));
    watcher.socket.terminate();
    assert.equal(watcher.frames[0]?.type, 'resumed');
    return watcher.frames.slice(1);
  };
  /** What a request for a WebSocket is answered instead. */
  const refused = (address: string, options: { headers?: Record<string, string>; protocols?: string[] } = {}) =>
    new Promise<{ status: number | undefined; body: string }>((resolve, reject) => {
      const socket = new WebSocket(`${platform.url}${address}`, options.protocols ?? [], {
        headers: options.headers ?? {},
      });
      socket.once('unexpected-response', (_request, response) => {
        let body = '';
        response.on('data', (part) => (body += String(part)));
        response.on('end', () => resolve({ status: response.statusCode, body }));
      });
      socket.once('open', () => reject(new Error('was upgraded')));
      socket.on('error', () => undefined);
    });

  before(async () => {
    model = await startFakeAnthropic(({ messages, tools: offered }) => {
      if (offered?.[0]?.name === 'submit_verdict') return verdicts.shift() ?? say('none');
      // Results of a turn that was stopped come with the next message; a message that goes with a decision comes with results.
      const content = messages.at(-1)?.content ?? [];
      const isAsked = JSON.stringify(content).includes('"Buy"');
      return !isAsked && JSON.stringify(content).includes('"tool_result"') ? say(answer) : first;
    });
    tools = await startServer((seen, response) => {
      response.writeHead(seen.path.includes('broken') ? 400 : 200, { 'content-type': 'application/json' });
      response.end('{"price":4.2}');
    });
    env = { ANTHROPIC_API_KEY: 'sk-test', ANTHROPIC_BASE_URL: model.url, DROVER_EGRESS_ALLOW: '127.0.0.1' };
    platform = await openTestPlatform(undefined, { api: true, workers: true, env });
    const risks = { look: 'READ_ONLY', broken: 'READ_ONLY', buy: 'WRITE_LOW_RISK' };
    for (const [name, risk_level] of Object.entries(risks)) {
      const transport = { type: 'http', endpoint: `${tools.url}/${name}` };
      await call('POST', '/v1/tools', { name, description: 'A tool.', risk_level, transport });
    }
    agent = (await call('POST', '/v1/agents', { name: 'trader', tools: Object.keys(risks) })).json.id;
  });
  after(async () => {
    await platform?.close();
    await model?.close();
    await tools?.close();
  });
  beforeEach(() => {
    answer = 'Ore is cheap.';
  });
  afterEach(async () => {
    for (const socket of sockets.splice(0)) socket.terminate();
    await api?.close(1000);
    api = undefined;
  });

  it('shows a plan that is carried out at once, to its answer', async () => {
    const session = await begin();
    const watcher = await watch(session);
    first = use({ name: 'look', input: { at: 1 } }, { name: 'look', input: { at: 2 } }, { name: 'broken' });
    await chat('What is profitable in Jita?', { session_id: session });
    await watcher.until('the end of the turn', last('completed_with_errors'));
    const { frames } = watcher;
    const calls = typesOf(frames).filter((type) => type.startsWith('tool_call_'));
    assert.deepEqual(
      typesOf(frames).filter((type) => !calls.includes(type)),
      [
        'session_resumed',
        'planning_started',
        'plan_proposed',
        'execution_started',
        'answer_ready',
        'completed_with_errors',
      ],
    );
    assert.deepEqual(calls.toSorted(), [
      'tool_call_completed',
      'tool_call_completed',
      'tool_call_failed',
      'tool_call_started',
      'tool_call_started',
      'tool_call_started',
    ]);
    const proposed = frames.find(({ type }) => type === 'plan_proposed');
    assert.ok(proposed?.plan_id);
    assert.equal(proposed.auto_executing, true);
    const { purpose, max_risk_level, tool_count, steps } = proposed.payload;
    assert.deepEqual([purpose, max_risk_level, tool_count], ['What is profitable in Jita?', 'READ_ONLY', 3]);
    assert.deepEqual(
      steps.map(({ tool, arguments: given }: { tool: string; arguments: unknown }) => [tool, given]),
      [
        ['look', { at: 1 }],
        ['look', { at: 2 }],
        ['broken', {}],
      ],
    );
    for (const { type, plan_id, payload } of frames.filter((frame) => calls.includes(frame.type))) {
      assert.equal(plan_id, proposed.plan_id);
      assert.equal(payload.tool, steps[payload.step_index]?.tool);
      if (type === 'tool_call_started') assert.deepEqual(payload.arguments, steps[payload.step_index]?.arguments);
      if (type === 'tool_call_completed') assert.deepEqual(payload.result_preview, '{"price":4.2}');
      if (type === 'tool_call_completed') assert.equal(typeof payload.duration_ms, 'number');
      if (type === 'tool_call_failed') assert.deepEqual([/400/.test(payload.error), payload.retry_count], [true, 0]);
    }
    const ready = frames.at(-2);
    assert.deepEqual([ready?.payload.answer, ready?.payload.tool_calls_count], ['Ore is cheap.', 3]);
    assert.equal(watcher.deltas.map(({ payload }) => payload.content).join(''), 'Ore is cheap.');
    const numbers = frames.map(({ seq }) => seq ?? 0);
    assert.deepEqual(
      numbers,
      [...new Set(numbers)].toSorted((a, b) => a - b),
      'seq rises',
    );
    assert.ok(frames.every((frame) => frame.session_id === session && !Number.isNaN(Date.parse(frame.timestamp))));
  });

  it('says where a piece stands, by which an answer that broke off and is written again is told', async () => {
    const session = await begin();
    const watcher = await watch(session);
    first = { ...say('Ore is'), error: { type: 'api_error', message: 'broken', midStream: true } };
    await chat('Is ore cheap?', { session_id: session });
    await waitUntil('it broke off', () => watcher.deltas.length > 0);
    first = say('Ore is cheap.');
    await watcher.until('the answer', last('completed'));
    let written = '';
    let before = -1;
    for (const { payload } of watcher.deltas) {
      written = Number(payload['at']) <= before ? payload.content : written + payload.content;
      before = Number(payload['at']);
    }
    assert.equal(written, 'Ore is cheap.');
    assert.notEqual(watcher.deltas.map(({ payload }) => payload.content).join(''), written);
  });

  it('shows a plan that waits, and goes on when it is approved', async () => {
    const session = await begin();
    const watcher = await watch(session);
    first = use({ name: 'look' }, { name: 'buy', input: { what: 'ore' } });
    await chat('Buy ore', { session_id: session });
    await waitUntil('the plan waits', async () => (await status(session)) === 'waiting_approval');
    await watcher.until('the call that needs no approval', (frames) => typesOf(frames).includes('tool_call_completed'));
    const planned = watcher.frames.filter(({ plan_id }) => plan_id !== undefined);
    assert.deepEqual(typesOf(planned), ['plan_proposed', 'waiting_for_approval']);
    assert.equal(planned[0]?.auto_executing, false);
    assert.match(planned[1]?.payload.message ?? '', /approval/);
    await chat('And in Dodixie?', { session_id: session });
    await watcher.until('the message that waits', last('message_queued'));
    assert.equal(watcher.frames.at(-1)?.payload.queued_message_preview, 'And in Dodixie?');
    const plan_id = planned[0]?.plan_id;
    assert.equal((await call('POST', '/agent/execute', { session_id: session, plan_id })).status, 200);
    await watcher.until('the end of the turn', last('completed'));
    const after = watcher.frames.slice(typesOf(watcher.frames).indexOf('plan_approved'));
    assert.deepEqual(typesOf(after), [
      'plan_approved',
      'execution_started',
      'tool_call_started',
      'tool_call_completed',
      'answer_ready',
      'completed',
    ]);
    assert.deepEqual([after[2]?.plan_id, after[2]?.payload.step_index], [plan_id, 0]);
  });

  it('shows refusals, interruptions and failures', async () => {
    const session = await begin();
    const watcher = await watch(session);
    first = use({ name: 'buy' });
    const propose = async () => {
      await chat('Buy', { session_id: session });
      let pending: { plan_id: string } | null = null;
      await waitUntil('the plan waits', async () => {
        pending = (await call('GET', `/agent/session/${session}`)).json.pending_plan;
        return pending !== null;
      });
      return (pending as { plan_id: string } | null)?.plan_id;
    };
    await call('POST', '/agent/reject', { session_id: session, plan_id: await propose(), reason: 'too dear' });
    await watcher.until('the refusal', (frames) => typesOf(frames).includes('plan_rejected'));
    const reasonOf = (wanted: string) => watcher.frames.find(({ type }) => type === wanted)?.payload.reason;
    assert.equal(reasonOf('plan_rejected'), 'too dear', 'as the person has said it');
    await propose();
    await call('POST', '/agent/interrupt', { session_id: session });
    await watcher.until('the interruption', last('interrupted'));
    first = { error: { type: 'authentication_error', message: 'wrong key', status: 401 } };
    await chat('Buy', { session_id: session });
    await watcher.until('the failure', last('error'));
    assert.notEqual(watcher.frames.at(-1)?.payload.message, '');
  });

  it('goes on after any frame without loss and repetition, over several runs and turns', async () => {
    first = use({ name: 'look' }, { name: 'look' }, { name: 'broken' });
    const session = await chat('look');
    await waitUntil('the first turn is over', async () => (await status(session)) === 'completed_with_errors');
    const { run_id } = (await call('GET', `/agent/session/${session}`)).json;
    assert.equal((await call('POST', `/v1/runs/${run_id}/complete`)).status, 200);
    first = use({ name: 'buy' });
    await chat('buy', { session_id: session });
    await waitUntil('the plan waits', async () => (await status(session)) === 'waiting_approval');
    const plan_id = (await call('GET', `/agent/session/${session}`)).json.pending_plan.plan_id;
    await call('POST', '/agent/execute', { session_id: session, plan_id });
    const all = await readAll(session, 'completed');
    assert.deepEqual(
      typesOf(all).filter((type) => type.startsWith('session_')),
      ['session_created', 'session_resumed'],
    );
    assert.ok((all.at(-1)?.seq ?? 0) > 2 * 2 ** 32, 'the second run stands above the first');
    for (const [at, { seq }] of all.slice(0, -1).entries()) {
      const watcher = await watch(session, { after: seq ?? 0 });
      await watcher.until('the rest', last('completed'));
      assert.deepEqual(watcher.frames.slice(1), all.slice(at + 1));
      watcher.socket.terminate();
    }
  });

  it('shows an answer as ready once reflection has nothing against it, and as a thought what lacked something', async () => {
    const execution_config = { reflect: true };
    const body = { name: 'reflecting', execution_config };
    const reflecting = (await call('POST', '/v1/agents', body)).json.id;
    const verdict = (meets_criteria: boolean, ...gaps: string[]) =>
      use({ name: 'submit_verdict', input: { meets_criteria, gaps } });
    verdicts.push(verdict(false, 'the price'), verdict(true));
    first = say('Ore.');
    const session = await chat('What, and for how much?', { agent_id: reflecting });
    const frames = await readAll(session, 'completed');
    assert.deepEqual(
      frames.slice(1).map(({ type, payload }) => [type, payload.content ?? payload.answer]),
      [
        ['planning_started', undefined],
        ['thinking', 'Ore.'],
        ['answer_ready', 'Ore.'],
        ['completed', undefined],
      ],
    );
  });

  it('notices the next run of a session', async () => {
    const session = await begin();
    const { run_id } = (await call('GET', `/agent/session/${session}`)).json;
    await call('POST', `/v1/runs/${run_id}/complete`);
    const watcher = await watch(session);
    await chat('hello again', { session_id: session });
    await watcher.until('the answer of the next run', last('completed'));
    assert.deepEqual(typesOf(watcher.frames), ['session_resumed', 'planning_started', 'answer_ready', 'completed']);
  });

  it('is served by any process', async function () {
    if (DOMAIN_MODE === 'embedded') this.skip();
    const config = loadConfig({ DROVER_API_KEY: platform.apiKey, ...platform.env, ...env });
    const other = await openPlatform(config, { log: platform.context.log });
    const second = await serve(other.context, ROUTES, { host: '127.0.0.1', port: 0 });
    try {
      const session = await begin();
      const [here, there] = [await watch(session), await watch(session, { url: second.url })];
      first = use({ name: 'look' }, { name: 'look' }, { name: 'look' });
      await chat('look', { session_id: session });
      await here.until('the end of the turn', last('completed'));
      await there.until('the same over there', last('completed'));
      assert.deepEqual(there.frames, here.frames);
    } finally {
      await second.close(1000);
      await other.close();
    }
  });

  it('is refused in plain HTTP before the upgrade', async () => {
    const session = await begin();
    const path = `/agent/stream/${session}`;
    const as = (key: string) => ({ headers: { authorization: `Bearer ${key}` } });
    assert.equal((await refused(path)).status, 401);
    assert.equal((await refused(path, as('nobody'))).status, 401);
    const wrong = await refused(path, { protocols: ['drover', 'bearer.nobody'] });
    assert.deepEqual([wrong.status, JSON.parse(wrong.body).code], [401, 'unauthorized']);
    const inUrl = await refused(`${path}?token=${platform.apiKey}`, as(platform.apiKey));
    assert.equal(inUrl.status, 400);
    const weak = await call('POST', '/v1/api-keys', { name: 'weak', scopes: ['agents:read'] });
    assert.equal((await refused(path, as(weak.json.key))).status, 403);
    assert.equal((await refused(`/agent/stream/${newId()}`, as(platform.apiKey))).status, 404);
    assert.equal((await refused('/agent/streams', as(platform.apiKey))).status, 404);
    const tenant = await call('POST', '/v1/tenants', { name: newId() });
    assert.equal((await refused(path, as(tenant.json.key))).status, 404, "another tenant's");
    assert.equal((await call('GET', path)).status, 426);
  });

  it('tells as a problem what is wrong with a handshake, which takes no place of the key', async () => {
    const session = await begin();
    api = await serve(platform.context, ROUTES, { host: '127.0.0.1', port: 0, sockets: { perKey: 1 } });
    const { hostname } = new URL(api.url);
    const lines = [
      `GET /agent/stream/${session} HTTP/1.1`,
      `host: ${hostname}`,
      `authorization: Bearer ${platform.apiKey}`,
      'connection: Upgrade',
      'upgrade: websocket',
    ];
    const faulty = [
      ['sec-websocket-version: 13'],
      ['sec-websocket-version: 7', 'sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=='],
      ['sec-websocket-version: 13', 'sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==', 'sec-websocket-protocol: ,'],
    ];
    for (const more of faulty) {
      const [head = '', body = ''] = (await exchange(api.url, [...lines, ...more])).split('\r\n\r\n');
      assert.match(head, /^HTTP\/1\.1 400 [^]*content-type: application\/problem\+json/i);
      assert.match(head, /sec-websocket-version: 13/i);
      const { code, detail, request_id } = JSON.parse(body);
      assert.equal(code, 'bad-request');
      assert.match(detail, /Sec-WebSocket-/);
      assert.ok(request_id);
    }
    await waitUntil('the key has its place', () =>
      watch(session, { url: api?.url }).then(
        () => true,
        () => false,
      ),
    );
  });

  it('takes the key as a subprotocol, and answers with another one', async () => {
    const session = await begin();
    const protocols = ['drover', `bearer.${platform.apiKey}`];
    const socket = new WebSocket(`${platform.url}/agent/stream/${session}`, protocols);
    sockets.push(socket);
    const watcher = listen(socket);
    await new Promise((resolve) => {
      socket.once('open', resolve);
    });
    assert.equal(socket.protocol, 'drover');
    await chat('hello', { session_id: session });
    await watcher.until('the answer', last('completed'));
  });

  it('closes with 1008 for what is no message, and 1009 for what is too long', async () => {
    const session = await begin();
    for (const message of ['{', '{"type":"dance"}', '{"type":"resume","after":-1}', Buffer.from([1])]) {
      const watcher = await watch(session);
      watcher.socket.send(message);
      assert.equal(await watcher.closed, 1008);
    }
    const watcher = await watch(session);
    watcher.socket.send('x'.repeat(100_000));
    assert.equal(await watcher.closed, 1009);
  });

  it('counts a resume as a request, and closes with 1013 beyond what the tenant has', async () => {
    const settings = { rate_limits: { requests_per_minute: 5 } };
    const tenant = await call('POST', '/v1/tenants', { name: newId(), settings });
    const { key } = tenant.json;
    const { url = '' } = platform;
    const post = (path: string, body: unknown) => request(`${url}${path}`, 'POST', { key, body });
    const made = await post('/v1/agents', { name: newName() });
    const begun = await post('/agent/chat', { message: 'hello', user_id: 'ada', agent_id: made.json.id });
    assert.equal(begun.status, 202, begun.text);
    const address = `${url.replace('http', 'ws')}/agent/stream/${begun.json.session_id}`;
    const socket = new WebSocket(address, { headers: { authorization: `Bearer ${key}` } });
    sockets.push(socket);
    const watcher = listen(socket);
    await new Promise((resolve) => socket.once('open', resolve));
    let reason = '';
    socket.once('close', (_code, text) => (reason = text.toString()));
    // The agent, the message and the upgrade have counted.
    for (const after of [0, 1, 2]) socket.send(JSON.stringify({ type: 'resume', after }));
    assert.equal(await watcher.closed, 1013);
    assert.match(reason, /^Too many requests of this tenant: 5 in 60 s are the limit. Again in \d+ s.$/);
    assert.ok(watcher.frames.filter(({ type }) => type === 'resumed').length <= 2);
  });

  it('closes with 4010 when the session is deleted, with a run that is open or none', async () => {
    for (const isOpen of [true, false]) {
      const session = await begin();
      const { run_id } = (await call('GET', `/agent/session/${session}`)).json;
      if (!isOpen) await call('POST', `/v1/runs/${run_id}/complete`);
      const watcher = await watch(session);
      assert.equal((await call('DELETE', `/agent/session/${session}`)).status, 200);
      assert.equal(await watcher.closed, 4010);
    }
  });

  it('closes with 1001 when the server stops', async () => {
    const session = await begin();
    api = await serve(platform.context, ROUTES, { host: '127.0.0.1', port: 0 });
    const watcher = await watch(session, { url: api.url });
    const [code] = await Promise.all([watcher.closed, api.close(10_000)]);
    assert.equal(code, 1001);
  });

  it('stops in time although a client does not answer', async () => {
    const session = await begin();
    api = await serve(platform.context, ROUTES, { host: '127.0.0.1', port: 0 });
    const watcher = await watch(session, { url: api.url });
    watcher.socket.pause();
    await api.close(100);
    watcher.socket.resume();
    await watcher.closed;
  });

  it('closes with 1011 where something goes wrong here, and goes on in another connection', async () => {
    const session = await begin();
    let isBroken = false;
    const { db } = platform.context;
    const breaking =
      (read: 'withTenant' | 'withTenantOnce'): typeof db.withTenant =>
      (tenant, work) =>
        isBroken ? Promise.reject(new Error('the disk is on fire')) : db[read](tenant, work);
    const context = overDatabase(platform.context, {
      ...db,
      withTenant: breaking('withTenant'),
      withTenantOnce: breaking('withTenantOnce'),
    });
    api = await serve(context, ROUTES, { host: '127.0.0.1', port: 0 });
    const watcher = await watch(session, { url: api.url });
    isBroken = true;
    watcher.socket.send(JSON.stringify({ type: 'resume', after: 0 }));
    assert.equal(await watcher.closed, 1011);
    assert.ok(platform.log.some(({ msg }) => msg === 'a stream of a session broke off'));
    isBroken = false;
    const again = await watch(session, { url: api.url, after: 0 });
    await again.until('all of it', last('completed'));
  });

  it('limits how many a key has open', async () => {
    const session = await begin();
    api = await serve(platform.context, ROUTES, { host: '127.0.0.1', port: 0, sockets: { perKey: 1 } });
    const watcher = await watch(session, { url: api.url });
    await assert.rejects(watch(session, { url: api.url }), /429/);
    watcher.socket.close();
    await watcher.closed;
    await waitUntil('there is room again', () =>
      watch(session, { url: api?.url }).then(
        () => true,
        () => false,
      ),
    );
  });

  it('answers a request that would upgrade to something else as a plain one', async () => {
    const body = JSON.stringify({ message: 'hello', user_id: 'ada', agent_id: agent });
    first = say('hello');
    const { hostname } = new URL(platform.url ?? '');
    const lines = [
      'POST /agent/chat HTTP/1.1',
      `host: ${hostname}`,
      `authorization: Bearer ${platform.apiKey}`,
      'connection: Upgrade, HTTP2-Settings, close',
      'upgrade: h2c',
      'http2-settings: AAMAAABkAAQAAP__',
      'content-type: application/json',
      `content-length: ${Buffer.byteLength(body)}`,
    ];
    assert.match(await exchange(platform.url ?? '', lines, body), /^HTTP\/1\.1 202 /);
  });
});
