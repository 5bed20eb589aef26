import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { issueTestToken } from '../support/issue-token.ts';
import { ROUTES } from '../../api/routes.ts';
import type { Call } from '../support/api.ts';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { waitUntil } from '../support/wait-until.ts';
import { newName } from '../support/new-name.ts';

describe('a token for a run', () => {
  let api: ScriptedService;

  before(async () => {
    api = await startScriptedService();
  });
  after(() => api.close());

  const post = (path: string, body: unknown, call: Call = {}) => api.call('POST', path, { ...call, body });
  const mint = (run: string, scopes: string[], call: Call = {}) =>
    post(`/v1/runs/${run}/tokens`, { ttl_seconds: 600, scopes }, call);
  const token = async (run: string, scopes: string[], key?: string): Promise<string> => {
    const { status, json, text } = await mint(run, scopes, key === undefined ? {} : { key });
    assert.equal(status, 201, text);
    return json.token;
  };
  const makeKey = async (scopes: string[]) => (await post('/v1/api-keys', { name: 'k', scopes })).json;
  const statusOf = async (method: string, path: string, call: Call) => (await api.call(method, path, call)).status;

  /** A run that waits for a person. */
  async function waiting(message = 'call ask_user {"question":"How much?"}', autonomy_level = 2) {
    const { json: agent } = await post('/v1/agents', { name: newName('waiter'), tools: ['ask_user', 'calculator'] });
    const body = { input: { message }, config: { keep_open: true, autonomy_level } };
    const { json } = await post(`/v1/agents/${agent.id}/runs`, body);
    const run: string = json.run_id;
    await waitUntil('the run waits', async () => {
      return ((await api.call('GET', `/v1/runs/${run}`)).json.waits ?? []).length === 1;
    });
    return { run, agent: String(agent.id), turn: String(json.turn_id) };
  }

  it('reads this run, under both of its paths, and nothing of another', async () => {
    const { run, agent, turn } = await waiting();
    const other = await waiting();
    const key = await token(run, ['read']);
    for (const base of [`/v1/runs/${run}`, `/v1/agents/${agent}/runs/${run}`]) {
      for (const path of ['', '/turns', `/turns/${turn}`, '/events']) {
        assert.equal(await statusOf('GET', `${base}${path}`, { key }), 200, path);
      }
    }
    for (const path of ['', '/turns', `/turns/${other.turn}`, '/events', '/stream']) {
      assert.equal(await statusOf('GET', `/v1/runs/${other.run}${path}`, { key }), 403, path);
    }
    assert.equal(await statusOf('GET', `/v1/runs/${randomUUID()}`, { key }), 403);
  });

  it('streams it, from the query too, as `EventSource` would', async () => {
    const { run } = await waiting();
    await post(`/v1/runs/${run}/resume`, { answer: 'ten' });
    await post(`/v1/runs/${run}/complete`, {});
    const key = await token(run, ['read']);
    const byHeader = await api.call('GET', `/v1/runs/${run}/stream`, { key });
    const byQuery = await api.call('GET', `/v1/runs/${run}/stream?token=${key}`, { key: null });
    assert.deepEqual([byHeader.status, byQuery.status, byQuery.text], [200, 200, byHeader.text]);
    assert.match(byQuery.text, /event: done/);
    assert.ok(!JSON.stringify(api.log).includes(key), 'the token is in the log');
  });

  it('in a query opens the stream alone, and a key in a query opens nothing', async () => {
    const { run } = await waiting();
    const key = await token(run, ['read']);
    assert.equal(await statusOf('GET', `/v1/runs/${run}/stream?token=${key}`, {}), 400, 'which of the two is meant?');
    assert.equal(await statusOf('GET', `/v1/runs/${run}?token=${key}`, { key: null }), 401);
    assert.equal(await statusOf('GET', `/v1/runs/${run}/stream?token=${api.key}`, { key: null }), 401);
  });

  it('answers what the run waits for, and what a key with no right to decide may not', async () => {
    const question = await waiting();
    const answers = await token(question.run, ['answer']);
    const { status, json } = await post(`/v1/runs/${question.run}/resume`, { answer: 'ten' }, { key: answers });
    assert.deepEqual([status, json.output.message], [200, 'done: {"message":"ten"}']);
    const next = await post(`/v1/runs/${question.run}/resume`, { answer: 'say hello' }, { key: answers });
    assert.deepEqual([next.status, next.json.output?.message], [200, 'hello']);
    const { run } = await waiting('call calculator {"expression":"6*7"}', 0);
    const decision = { decision: 'approve' };
    const writer = await makeKey(['runs:read', 'runs:write']);
    const weak = await token(run, ['answer'], writer.key);
    assert.equal((await post(`/v1/runs/${run}/resume`, { decision }, { key: weak })).status, 403);
    const strong = await token(run, ['answer']);
    assert.equal((await post(`/v1/runs/${run}/resume`, { decision }, { key: strong })).status, 200);
  });

  it('sends a signal to the run', async () => {
    const { run } = await waiting();
    const key = await token(run, ['answer']);
    const signal = { type: 'user', payload: { message: 'ten' } };
    const sent = await post(`/v1/runs/${run}/signals`, signal, { key });
    assert.ok(sent.status < 300, sent.text);
    await waitUntil('the turn ends', async () => {
      const { json } = await api.call('GET', `/v1/runs/${run}/turns`);
      return json.turns[0].status === 'complete';
    });
  });

  it('does what it is for alone', async () => {
    const { run } = await waiting();
    const reads = await token(run, ['read']);
    const answers = await token(run, ['answer']);
    assert.equal((await post(`/v1/runs/${run}/resume`, { answer: 'x' }, { key: reads })).status, 403);
    assert.equal(await statusOf('GET', `/v1/runs/${run}`, { key: answers }), 403);
    assert.equal(await statusOf('GET', `/v1/runs/${run}/stream`, { key: answers }), 403);
  });

  it('opens no other route, be it of its own run', async () => {
    const { run } = await waiting();
    const key = await token(run, ['read', 'answer']);
    const open = new Set(['', '/stream', '/events', '/turns', '/turns/:turn', '/resume', '/signals']);
    for (const { method, path, access } of ROUTES) {
      const tail = /^\/v1\/(?:agents\/:id\/)?runs\/:run(.*)$/.exec(path)?.[1];
      const isPublic = access === 'open' || access.startsWith('loopback');
      if (isPublic || (tail !== undefined && open.has(tail) && method !== 'delete' && !isNewTurn(method, tail)))
        continue;
      const url = path.replace(':run', run).replaceAll(/:\w+/g, randomUUID());
      const status = await statusOf(method.toUpperCase(), url, { key, ...(method === 'get' ? {} : { body: {} }) });
      assert.equal(status, 403, `${method} ${path}`);
    }
  });
  const isNewTurn = (method: string, tail: string) => method === 'post' && tail === '/turns';

  it('cannot do what the key that makes it cannot', async () => {
    const { run } = await waiting();
    const reader = await makeKey(['runs:read']);
    assert.equal((await mint(run, ['read'], { key: reader.key })).status, 201);
    assert.equal((await mint(run, ['read', 'answer'], { key: reader.key })).status, 403);
    const writer = await makeKey(['runs:write']);
    assert.equal((await mint(run, ['answer'], { key: writer.key })).status, 403);
    const stranger = await api.newTenant();
    assert.equal((await mint(run, ['read'], { key: stranger.key })).status, 404);
  });

  it('is made once for one Idempotency-Key, and shown once', async () => {
    const { run } = await waiting();
    const body = { ttl_seconds: 600, scopes: ['read'] };
    const headers = { 'idempotency-key': randomUUID() };
    const made = await post(`/v1/runs/${run}/tokens`, body, { headers });
    const again = await post(`/v1/runs/${run}/tokens`, body, { headers });
    assert.deepEqual([made.status, again.status, typeof made.json.token], [201, 201, 'string']);
    assert.deepEqual(again.json, { expires_at: made.json.expires_at });
    assert.equal((await post(`/v1/runs/${run}/tokens`, { ...body, ttl_seconds: 60 }, { headers })).status, 422);
  });

  it('lives an hour at most', async () => {
    const { run } = await waiting();
    for (const ttl_seconds of [3601, 0, 1.5]) {
      assert.equal((await post(`/v1/runs/${run}/tokens`, { ttl_seconds, scopes: ['read'] })).status, 400);
    }
    for (const scopes of [[], ['write']]) {
      assert.equal((await post(`/v1/runs/${run}/tokens`, { ttl_seconds: 60, scopes })).status, 400);
    }
    const before = Date.now();
    const { json } = await post(`/v1/runs/${run}/tokens`, { ttl_seconds: 3600, scopes: ['read'] });
    assert.ok(Math.abs(Date.parse(json.expires_at) - before - 3_600_000) < 120_000, json.expires_at);
  });

  async function endsIn(run: string, ttlSeconds: number): Promise<string> {
    const { json: me } = await post('/v1/api-keys', { name: 'k', scopes: ['runs:read'] });
    return issueTestToken(api.context, { run, keyId: String(me.id), target: { kind: 'run', id: run }, ttlSeconds });
  }

  it('is worth nothing once it has expired, been changed, or its key been revoked', async () => {
    const { run } = await waiting();
    const other = await waiting();
    assert.equal(await statusOf('GET', `/v1/runs/${run}`, { key: await endsIn(run, 60) }), 200);
    const late = await api.call('GET', `/v1/runs/${run}`, { key: await endsIn(run, 0) });
    assert.deepEqual(
      [late.status, late.headers.get('www-authenticate')],
      [401, 'Bearer realm="drover", error="invalid_token"'],
    );
    const key = await makeKey(['runs:read']);
    const given = await token(run, ['read'], key.key);
    for (const forged of [given.replace(run, other.run), `${given.slice(0, -6)}AAAAAA`, 'drt_x']) {
      assert.equal(await statusOf('GET', `/v1/runs/${other.run}`, { key: forged }), 401, forged);
    }
    assert.equal(await statusOf('GET', `/v1/runs/${run}`, { key: given }), 200);
    await api.call('DELETE', `/v1/api-keys/${key.id}`);
    assert.equal(await statusOf('GET', `/v1/runs/${run}`, { key: given }), 401);
  });

  it('ends the stream that it opened when it ends itself', async () => {
    const { run } = await waiting();
    let answer = await api.call('GET', `/v1/runs/${run}/stream`, { key: await endsIn(run, 1) });
    // On a slow machine it may have ended before it was used.
    for (let tries = 0; answer.status === 401 && tries < 5; tries++) {
      answer = await api.call('GET', `/v1/runs/${run}/stream`, { key: await endsIn(run, 2 + tries * 2) });
    }
    assert.deepEqual([answer.status, /event: done/.test(answer.text)], [200, false]);
  });

  it('is named in the audit log, and never itself', async () => {
    const { run } = await waiting();
    const given = await token(run, ['read']);
    const { json, text } = await api.call('GET', '/v1/audit?action=run_token.created');
    const entry = json.audit.find(({ target }: { target: { id: string } }) => target.id === run);
    assert.deepEqual(entry?.details.scopes, ['read'], text.slice(0, 600));
    assert.ok(!text.includes(given));
  });
});
