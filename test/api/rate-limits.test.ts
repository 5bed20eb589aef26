import assert from 'node:assert/strict';
import { once } from 'node:events';
import { WebSocket } from 'ws';
import { ROUTES } from '../../api/routes.ts';
import { serve, type RunningApi } from '../../api/serve.ts';
import { newId } from '../../lib/new-id.ts';
import { forgetOldRows } from '../../modules/platform/forget-old.ts';
import { openPlatform, type Platform } from '../../modules/platform/open-platform.ts';
import { openRateCounter } from '../../modules/tenants/rate-counter.ts';
import { request, startTestApi, type Answer, type TestApi } from '../support/api.ts';
import { MODES, TEST_REDIS_URL } from '../support/modes.ts';
import { waitUntil } from '../support/wait-until.ts';
import { ageRates, namesOfRates } from '../support/queries/tenants.ts';

/** The items of a structured header: `"tenant";q=60;w=60`. */
function itemsOf(answer: Answer, header: string): Record<string, Record<string, number>> {
  const items = (answer.headers.get(header) ?? '').split(', ').filter((item) => item !== '');
  return Object.fromEntries(
    items.map((item) => {
      const [name = '', ...parameters] = item.split(';');
      return [
        JSON.parse(name),
        Object.fromEntries(parameters.map((each) => each.split('=')).map(([k, v]) => [k, Number(v)])),
      ];
    }),
  );
}

/** How many answers there are of each status. */
function tally(answers: readonly Answer[]): Record<number, number> {
  const found: Record<number, number> = {};
  for (const { status } of answers) found[status] = (found[status] ?? 0) + 1;
  return found;
}

function assertRefused(answer: Answer, policy: string, windowSeconds: number): void {
  assert.equal(answer.status, 429, answer.text);
  assert.equal(answer.headers.get('content-type'), 'application/problem+json');
  const { code, policy: named, window_seconds } = answer.json;
  assert.deepEqual([code, named, window_seconds], ['rate-limited', policy, windowSeconds]);
  const wait = Number(answer.headers.get('retry-after'));
  assert.ok(Number.isInteger(wait) && wait >= 1 && wait <= windowSeconds, `Retry-After is ${wait}`);
  assert.deepEqual(itemsOf(answer, 'ratelimit')[policy], { r: 0, t: wait });
}

for (const mode of MODES) {
  describe(`rate limits (${mode})`, function () {
    let api: TestApi;
    /** Another process on the same stores; embedded mode has none. */
    let platform: Platform | undefined;
    let second: RunningApi | undefined;
    before(async () => {
      api = await startTestApi(mode);
      if (mode === 'embedded') return;
      platform = await openPlatform(api.context.config, { log: api.context.log });
      second = await serve(platform.context, ROUTES, { host: '127.0.0.1', port: 0 });
    });
    after(async () => {
      await second?.close(1000);
      await platform?.close();
      await api.close();
    });

    const newTenant = async (body: Record<string, unknown>): Promise<{ id: string; key: string }> => {
      const made = await api.call('POST', '/v1/tenants', { body: { name: newId(), ...body } });
      assert.equal(made.status, 201, made.text);
      return made.json;
    };
    let asked = 0;
    /** In turns by the one process and the other. */
    const call = (method: string, path: string, options: { key: string; body?: unknown }) => {
      asked += 1;
      return request(`${second && asked % 2 === 0 ? second.url : api.url}${path}`, method, options);
    };
    const agents = (key: string) => call('GET', '/v1/agents', { key });

    it('give a tenant what its tier has, over all of its keys and all processes', async () => {
      const { key } = await newTenant({ plan_tier: 'free' });
      const made = await call('POST', '/v1/api-keys', { key, body: { name: 'other', scopes: ['agents:read'] } });
      assert.deepEqual(itemsOf(made, 'ratelimit-policy'), { tenant: { q: 60, w: 60 } });
      assert.equal(itemsOf(made, 'ratelimit')['tenant']?.['r'], 59);
      const answers = await Promise.all(Array.from({ length: 60 }, (_, n) => agents(n % 3 ? key : made.json.key)));
      assert.deepEqual(tally(answers), { 200: 59, 429: 1 });
      for (const each of [key, made.json.key, key]) assertRefused(await agents(each), 'tenant', 60);
    });

    it('count what is refused for its scope or its form', async () => {
      const { key } = await newTenant({ settings: { rate_limits: { requests_per_minute: 3 } } });
      const reader = await call('POST', '/v1/api-keys', { key, body: { name: 'r', scopes: ['agents:read'] } });
      assert.equal((await call('GET', '/v1/secrets', { key: reader.json.key })).status, 403);
      assert.equal((await call('POST', '/v1/agents', { key, body: { nonsense: 1 } })).status, 400);
      assertRefused(await agents(key), 'tenant', 60);
    });

    it('count each message of a batch over MCP', async () => {
      const settings = { rate_limits: { requests_per_minute: 5 } };
      const headers = { accept: 'application/json, text/event-stream' };
      const list = (key: string, times: number) => {
        const body = Array.from({ length: times }, (_, id) => ({ jsonrpc: '2.0', id, method: 'tools/list' }));
        return request(`${api.url}/mcp`, 'POST', { key, body, headers });
      };
      const { key } = await newTenant({ settings });
      assert.equal((await list(key, 5)).status, 200);
      assertRefused(await agents(key), 'tenant', 60);
      assertRefused(await list((await newTenant({ settings })).key, 6), 'tenant', 60);
    });

    it('know three tiers, and take another one for standard', async () => {
      for (const [plan_tier, q] of [
        ['standard', 600],
        ['enterprise', 6000],
        ['gold', 600],
      ] as const) {
        const { key } = await newTenant({ plan_tier });
        assert.deepEqual(itemsOf(await agents(key), 'ratelimit-policy'), { tenant: { q, w: 60 } }, plan_tier);
      }
    });

    it('do not hold for the default tenant, nor where whoever watches the service asks', async () => {
      const { key } = await newTenant({ settings: { rate_limits: { requests_per_minute: 1 } } });
      assert.equal((await agents(key)).status, 200);
      assertRefused(await agents(key), 'tenant', 60);
      for (const path of ['/healthz', '/readyz', '/metrics', '/openapi.json']) {
        const answer = await call('GET', path, { key });
        assert.deepEqual([answer.status, answer.headers.get('ratelimit')], [200, null], path);
      }
      assert.equal((await agents(api.key)).headers.get('ratelimit-policy'), null);
    });

    it('are what the operator has set for a tenant, and for each of its keys', async () => {
      const { id, key } = await newTenant({ settings: { rate_limits: { key_requests_per_minute: 2 } } });
      const other = await call('POST', '/v1/api-keys', { key, body: { name: 'o', scopes: ['agents:read'] } });
      assert.deepEqual(itemsOf(other, 'ratelimit-policy'), { tenant: { q: 600, w: 60 }, key: { q: 2, w: 60 } });
      assert.equal((await agents(key)).status, 200);
      assertRefused(await agents(key), 'key', 60);
      assert.equal((await agents(other.json.key)).status, 200);

      const lifted = {
        plan_tier: 'enterprise',
        settings: { rate_limits: { requests_per_minute: null, key_requests_per_minute: null } },
      };
      const changed = await api.call('PATCH', `/v1/tenants/${id}`, { body: lifted });
      const { rate_limits } = changed.json.settings;
      assert.deepEqual([changed.status, changed.json.plan_tier], [200, 'enterprise'], changed.text);
      assert.deepEqual(rate_limits, { key_requests_per_minute: null, requests_per_minute: null });
      // The process that was told; the others within 5 s.
      const free = await api.call('GET', '/v1/agents', { key });
      assert.deepEqual([free.status, free.headers.get('ratelimit')], [200, null]);
      const { json } = await api.call('GET', '/v1/audit', { key });
      assert.deepEqual(json.audit.find((entry: Answer['json']) => entry.action === 'tenant.updated')?.details, lifted);
    });

    it('hold what a tenant has open at a process: streams, WebSockets and turns that are waited for', async () => {
      const { key } = await newTenant({ settings: { rate_limits: { open_requests: 1 } } });
      const post = async (path: string, body: unknown, headers = {}) =>
        request(`${api.url}${path}`, 'POST', { key, body, headers });
      const agent = (await post('/v1/agents', { name: newId() })).json.id;
      const run = (await post(`/v1/agents/${agent}/runs`, {})).json.run_id;
      const leaving = new AbortController();
      const headers = { authorization: `Bearer ${key}` };
      const watch = () => fetch(`${api.url}/v1/runs/${run}/stream`, { headers, signal: leaving.signal });
      assert.equal((await watch()).status, 200);
      const refused = await watch();
      assert.deepEqual([refused.status, refused.headers.get('retry-after')], [429, '10']);
      assert.match(await refused.text(), /has 1 streams, WebSockets and waiting requests.*"code":"too-many-open"/);
      const said = { input: { message: 'Hello' } };
      const turns = `/v1/agents/${agent}/runs/${run}/turns`;
      const socket = new WebSocket(`${api.url.replace('http', 'ws')}/acp/${agent}`, { headers });
      const [, answer] = await once(socket, 'unexpected-response');
      assert.equal(answer.statusCode, 429);
      assert.equal((await post(turns, said)).status, 429);
      assert.equal((await post(turns, said, { prefer: 'respond-async' })).status, 202, 'it was not taken before');
      assert.equal((await call('GET', `/v1/runs/${run}`, { key })).status, 200);
      leaving.abort();
      await waitUntil('there is room again', async () => {
        const { status, body } = await fetch(`${api.url}/v1/runs/${run}/stream`, { headers });
        await body?.cancel();
        return status === 200;
      });
    });

    it('are not for a tenant itself to set, nor for another one', async () => {
      const { id, key } = await newTenant({});
      const stranger = await newTenant({});
      const body = { settings: { rate_limits: { requests_per_minute: null } } };
      assert.equal((await call('PATCH', `/v1/tenants/${id}`, { key, body })).status, 403);
      assert.equal((await call('PATCH', `/v1/tenants/${id}`, { key, body: { ...body, suspended: true } })).status, 403);
      const now = await call('PATCH', `/v1/tenants/${id}`, { key, body: { suspended: false } });
      const { json } = await call('GET', '/v1/audit?action=tenant.resumed', { key });
      assert.deepEqual([now.status, json.audit], [200, []], 'what was refused has not suspended it');
      assert.equal((await call('PATCH', `/v1/tenants/${id}`, { key: stranger.key, body })).status, 404);
      assert.equal((await call('PATCH', `/v1/tenants/${id}`, { key, body: {} })).status, 400);
      assert.deepEqual(itemsOf(await agents(key), 'ratelimit-policy'), { tenant: { q: 600, w: 60 } });
    });

    it('give a user 100 messages an hour, those that are refused among them, and others theirs', async () => {
      const { key } = await newTenant({});
      const chat = (user_id: string, as = key) =>
        call('POST', '/agent/chat', { key: as, body: { message: 'Hello', user_id, session_id: newId() } });
      const answers = await Promise.all(Array.from({ length: 101 }, () => chat('ann')));
      assert.deepEqual(tally(answers), { 404: 100, 429: 1 });
      assertRefused(await chat('ann'), 'chats', 3600);
      const other = await chat('bob');
      assert.equal(other.status, 404);
      assert.deepEqual(itemsOf(other, 'ratelimit-policy')['chats'], { q: 100, w: 3600 });
      assert.equal(itemsOf(other, 'ratelimit')['chats']?.['r'], 99);
      const { key: elsewhere } = await newTenant({});
      assert.equal((await chat('ann', elsewhere)).status, 404);
    });

    it('count a message that is refused for its form for the user whom it names, and those together that name none', async () => {
      const settings = { rate_limits: { chats_per_hour: 5, executes_per_minute: 3 } };
      const { key } = await newTenant({ settings });
      const chat = (body: unknown) => call('POST', '/agent/chat', { key, body });
      for (const body of [
        { user_id: 'ann' },
        { user_id: 'ann', message: '' },
        { user_id: 'ann', message: 'x'.repeat(5001) },
        { user_id: 'ann', message: 'Hello', nonsense: 1 },
        { character_id: 'ann', message: 7 },
      ]) {
        assert.equal((await chat(body)).status, 400);
      }
      assertRefused(await chat({ user_id: 'ann', message: '' }), 'chats', 3600);
      assertRefused(await chat({ user_id: 'ann', message: 'Hello', session_id: newId() }), 'chats', 3600);
      assert.equal((await chat({ user_id: 'bob', message: 'Hello', session_id: newId() })).status, 404);
      const raw = (text: string) =>
        fetch(`${api.url}/agent/chat`, {
          method: 'POST',
          headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
          body: text,
        });
      const nobody = [await chat({ message: 'Hello' }), await chat({ user_id: '', message: 'Hello' }), await chat([])];
      assert.deepEqual(tally(nobody), { 400: 3 });
      assert.deepEqual([(await raw('{')).status, (await raw('{')).status, (await raw('{')).status], [400, 400, 429]);
      assert.equal((await chat({ user_id: 'bob', message: 'Hello', session_id: newId() })).status, 404);

      const session_id = newId();
      const execute = (body: unknown) => call('POST', '/agent/execute', { key, body });
      const faulty = [{ session_id }, { session_id, plan_id: 'p' }, { session_id, plan_id: newId(), more: 1 }];
      for (const body of faulty) assert.equal((await execute(body)).status, 400);
      assertRefused(await execute({ session_id, plan_id: newId() }), 'executes', 60);
    });

    it('give a session 20 executions a minute, and others theirs', async () => {
      const { key } = await newTenant({});
      const session = newId();
      const execute = (session_id: string, as = key) =>
        call('POST', '/agent/execute', { key: as, body: { session_id, plan_id: newId() } });
      const answers = await Promise.all(Array.from({ length: 21 }, () => execute(session)));
      assert.deepEqual(tally(answers), { 404: 20, 429: 1 });
      assertRefused(await execute(session), 'executes', 60);
      assert.equal((await execute(newId())).status, 404);
      const named = await Promise.all(Array.from({ length: 21 }, (_, n) => execute(`ext:name ${n}`)));
      assert.deepEqual(tally(named), { 404: 20, 429: 1 }, 'a session gets no more by further names');
      const { key: elsewhere } = await newTenant({});
      assert.equal((await execute(session, elsewhere)).status, 404);
    });

    it('begin anew with each window', async () => {
      const counter = await openRateCounter({
        ...api.context.config,
        db: api.context.db,
        onError: (error) => assert.fail(String(error)),
      });
      const counted = { name: `test:${newId()}`, windowSeconds: 1, quota: 1 };
      assert.equal((await counter.add(counted)).used, 1);
      await waitUntil('the window has ended', async () => (await counter.add(counted)).used === 1);
      await counter.close();
    });
  });
}

if (MODES.includes('postgres')) {
  describe('counts in Postgres', () => {
    it('are forgotten when their window is long over, and hold no name of a user', async () => {
      const api = await startTestApi('postgres');
      const { db } = api.context;
      const { key } = await api.newTenant();
      await api.call('POST', '/agent/chat', { key, body: { message: 'Hello', user_id: 'ann@example.org' } });
      assert.match(JSON.stringify(await namesOfRates(db)), /^\[\{"name":"chats:[0-9a-f-]{36}:[0-9a-f]{64}"\}\]$/);
      assert.equal((await forgetOldRows(api.context))['rate_counts'], 0);
      await ageRates(db);
      assert.equal((await forgetOldRows(api.context))['rate_counts'], 1);
      await api.close();
    }).timeout(60_000);
  });
}

if (MODES.includes('full')) {
  describe('rate limits with Redis away', () => {
    let api: TestApi;
    before(async () => {
      api = await startTestApi('full', { proxied: true });
    });
    after(() => api.close());

    it('hold in each process for itself, and are shared again when it is back', async () => {
      const settings = { rate_limits: { requests_per_minute: 2 } };
      const newKey = async () =>
        (await api.call('POST', '/v1/tenants', { body: { name: newId(), settings } })).json.key as string;
      const agents = (key: string) => api.call('GET', '/v1/agents', { key });
      await api.redis?.cut();
      const key = await newKey();
      const statuses = [(await agents(key)).status, (await agents(key)).status, (await agents(key)).status];
      assert.deepEqual(statuses, [200, 200, 429]);
      await api.redis?.restore();
      const redis = await openRateCounter({ ...api.context.config, db: api.context.db, onError: () => undefined });
      await waitUntil('another process sees what this one counts', async () => {
        const tenant = (await api.call('POST', '/v1/tenants', { body: { name: newId(), settings } })).json;
        await agents(tenant.key);
        const seen = await redis.add({ name: `tenant:${tenant.id}`, windowSeconds: 60, quota: 2 });
        return seen.used === 2;
      });
      await redis.close();
    }).timeout(60_000);

    it('are shared again as soon as another connection is there for one that broke', async () => {
      const errors: unknown[] = [];
      const settings = { ...api.context.config, db: api.context.db, onError: (error: unknown) => errors.push(error) };
      const proxied = await openRateCounter({ ...settings, restMs: 24 * 3600 * 1000 });
      const direct = await openRateCounter({ ...settings, redisUrl: TEST_REDIS_URL });
      await api.redis?.cut();
      const counted = () => ({ name: `test:${newId()}`, windowSeconds: 60, quota: 10 });
      assert.equal((await proxied.add(counted())).used, 1);
      assert.ok(errors.length > 0);
      await api.redis?.restore();
      await waitUntil('another process sees what this one counts', async () => {
        const each = counted();
        await proxied.add(each);
        return (await direct.add(each)).used === 2;
      });
      await Promise.all([proxied.close(), direct.close()]);
    }).timeout(60_000);
  });
}
