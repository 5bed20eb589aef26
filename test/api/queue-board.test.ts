import assert from 'node:assert/strict';
import { createSessionCookies, SESSION_MS } from '../../api/admin/session-cookie.ts';
import { newId } from '../../lib/new-id.ts';
import { startTestApi } from '../support/api.ts';
import type { Call, TestApi } from '../support/api.ts';

const BOARD = '/admin/queues';
const BROWSER = { accept: 'text/html' };

describe('the queue board', () => {
  let api: TestApi;
  before(async () => {
    api = await startTestApi();
  });
  after(() => api.close());

  const signIn = (key: string, headers: Record<string, string> = {}) =>
    api.call('POST', `${BOARD}/sign-in`, {
      key: null,
      raw: new URLSearchParams({ key }).toString(),
      headers: { ...BROWSER, 'content-type': 'application/x-www-form-urlencoded', ...headers },
      redirect: 'manual',
    });
  const cookieOf = async (key: string): Promise<string> => {
    const { headers } = await signIn(key);
    return (headers.get('set-cookie') ?? '').split(';')[0] ?? '';
  };
  const visit = (path: string, call: Call) => api.call('GET', `${BOARD}${path}`, { key: null, ...call });

  it("opens for the operator's key", async () => {
    const { status, json } = await visit('/api/queues', { key: api.key });
    assert.equal(status, 200);
    assert.deepEqual(
      json.queues.map(({ name }: { name: string }) => name),
      ['turns', 'tool-calls', 'maintenance'],
    );
  });

  it("is closed to no key, a wrong key, and other tenants' admins, its data and files too", async () => {
    const { key } = await api.newTenant();
    for (const path of ['', '/', '/api/queues', '/static/css/x.css', '/queue/turns']) {
      assert.equal((await visit(path, {})).status, 401, path);
      assert.equal((await visit(path, { key: 'wrong' })).status, 401, path);
      assert.equal((await visit(path, { key })).status, 403, path);
      assert.equal((await visit(path, { headers: BROWSER })).status, 401, path);
    }
  });

  it('shows a browser a form, and after signing in the board', async () => {
    const form = await visit('', { headers: BROWSER });
    assert.match(form.text, /<form method="post" action="\/admin\/queues\/sign-in">/);
    const answer = await signIn(api.key);
    assert.deepEqual([answer.status, new URL(answer.headers.get('location') ?? '', api.url).pathname], [303, BOARD]);
    const cookie = answer.headers.get('set-cookie') ?? '';
    assert.match(cookie, /httponly/i);
    assert.match(cookie, /samesite=strict/i);
    assert.match(cookie, /path=\/admin\/queues/i);
    assert.ok(!cookie.includes(api.key));
    const board = await visit('', { headers: { ...BROWSER, cookie: cookie.split(';')[0] ?? '' } });
    assert.deepEqual([board.status, /__UI_CONFIG__/.test(board.text)], [200, true]);
  });

  it('loads nothing from elsewhere', async () => {
    const { headers, text } = await visit('', { key: api.key });
    const policy = headers.get('content-security-policy') ?? '';
    assert.match(policy, /default-src 'none'/);
    assert.doesNotMatch(policy, /https?:|\*/);
    for (const [, path] of text.matchAll(/<script defer src="([^"]+)"/g)) {
      assert.equal((await visit(`/${path}`, { key: api.key })).status, 200, path);
    }
  });

  it('takes no wrong key, and no key of others', async () => {
    const { key } = await api.newTenant();
    for (const [given, status] of [
      ['wrong', 401],
      ['', 401],
      [key, 403],
    ] as const) {
      const answer = await signIn(given);
      assert.deepEqual([answer.status, answer.headers.get('set-cookie')], [status, null]);
      assert.match(answer.text, /role="alert"/);
    }
  });

  it('takes no request that another site has made a browser send', async () => {
    const cookie = await cookieOf(api.key);
    const pause = (headers: Record<string, string>) =>
      api.call('PUT', `${BOARD}/api/queues/turns/pause`, { key: null, headers: { cookie, ...headers } });
    assert.equal((await pause({ origin: 'https://evil.example' })).status, 403);
    assert.equal((await pause({ origin: 'http://127.0.0.1:1' })).status, 403);
    assert.equal((await pause({ origin: 'null' })).status, 403);
    assert.equal((await pause({ 'sec-fetch-site': 'same-site' })).status, 403);
    assert.equal((await pause({ origin: api.url, 'sec-fetch-site': 'same-origin' })).status, 200);
    assert.equal((await signIn(api.key, { origin: 'https://evil.example' })).status, 403);
  });

  it('ends a session by signing out, and with the key that began it', async () => {
    const { json } = await api.call('POST', '/v1/api-keys', { body: { name: 'board', scopes: ['admin'] } });
    const cookie = await cookieOf(json.key);
    const status = async () => (await visit('', { headers: { ...BROWSER, cookie } })).status;
    assert.equal(await status(), 200);
    const out = await api.call('POST', `${BOARD}/sign-out`, { key: null, headers: { cookie }, redirect: 'manual' });
    assert.match(out.headers.get('set-cookie') ?? '', /drover_admin=;.*expires=Thu, 01 Jan 1970/i);
    await api.call('DELETE', `/v1/api-keys/${json.id}`);
    assert.equal(await status(), 401);
  });
});

describe('a session cookie', () => {
  const keyId = newId();

  it('is taken by every process with the same secret, and by no other', () => {
    const value = createSessionCookies('secret').issue(keyId);
    assert.equal(createSessionCookies('secret').read(value), keyId);
    assert.equal(createSessionCookies('another').read(value), undefined);
    assert.equal(createSessionCookies(undefined).read(value), undefined);
  });

  it('ends after eight hours', () => {
    let nowMs = 1000;
    const sessions = createSessionCookies(undefined, () => nowMs);
    const value = sessions.issue(keyId);
    nowMs += SESSION_MS - 1;
    assert.equal(sessions.read(value), keyId);
    nowMs += 1;
    assert.equal(sessions.read(value), undefined);
  });

  it('is worth nothing once a character of it has changed', () => {
    const sessions = createSessionCookies(undefined);
    const value = sessions.issue(keyId);
    for (let index = 0; index < value.length - 1; index += 1) {
      const forged = value.slice(0, index) + (value[index] === '1' ? '2' : '1') + value.slice(index + 1);
      assert.equal(sessions.read(forged), undefined, String(index));
    }
    assert.equal(sessions.read(''), undefined);
  });
});
