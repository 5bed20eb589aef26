import assert from 'node:assert/strict';
import { createAuthenticator } from '../../modules/tenants/authenticate-key.ts';
import { ensureDefaultTenant } from '../../modules/tenants/bootstrap.ts';
import { startTestApi } from '../support/api.ts';
import { DOMAIN_MODE } from '../support/modes.ts';
import { waitUntil } from '../support/wait-until.ts';
import type { TestApi } from '../support/api.ts';
import { expireKey, keptAnswers } from '../support/queries/tenants.ts';
import { newName } from '../support/new-name.ts';

describe('keys and tenants over HTTP', () => {
  let api: TestApi;
  before(async () => {
    api = await startTestApi();
  });
  after(() => api.close());

  const makeKey = async (body: Record<string, unknown>, key = api.key) => {
    const answer = await api.call('POST', '/v1/api-keys', {
      key,
      body: { name: 'k', scopes: ['agents:read'], ...body },
    });
    assert.equal(answer.status, 201, answer.text);
    return answer.json;
  };

  it('show a key once and never again', async () => {
    const { id, key } = await makeKey({ name: 'once' });
    assert.match(key, /^drv_[\w-]{43}$/);
    const { json, text } = await api.call('GET', '/v1/api-keys');
    assert.deepEqual(json.api_keys.find((each: { id: string }) => each.id === id)?.name, 'once');
    assert.doesNotMatch(text, /drv_/);
  });

  it('end a key at once when it is revoked', async () => {
    const { id, key } = await makeKey({});
    assert.equal((await api.call('GET', '/v1/agents', { key })).status, 200);
    assert.equal((await api.call('DELETE', `/v1/api-keys/${id}`)).status, 204);
    assert.equal((await api.call('GET', '/v1/agents', { key })).status, 401);
    assert.equal((await api.call('DELETE', `/v1/api-keys/${id}`)).status, 204);
  });

  it('end a revoked key in other processes after 5 s at the latest', async () => {
    const { id, key } = await makeKey({});
    let nowMs = Date.now();
    const elsewhere = createAuthenticator(api.context.db, () => nowMs);
    assert.equal((await elsewhere.byKey(key))?.keyId, id);
    await api.call('DELETE', `/v1/api-keys/${id}`);
    nowMs += 5001;
    assert.equal(await elsewhere.byKey(key), undefined);
  });

  it('that are unknown are looked for once in 5 s, and make nobody forget one that is known', async () => {
    let nowMs = 1000;
    let looks = 0;
    const { db } = api.context;
    const counted: typeof db = {
      ...db,
      asMaintenance(work) {
        looks++;
        return db.asMaintenance(work);
      },
    };
    const authenticator = createAuthenticator(counted, () => nowMs);
    const { key } = await makeKey({});
    for (const each of [key, 'drv_unknown', key, 'drv_unknown', 'drv_unknown', 'drv_other']) {
      assert.equal((await authenticator.byKey(each)) !== undefined, each === key);
    }
    assert.equal(looks, 3);
    nowMs += 5001;
    assert.equal(await authenticator.byKey('drv_unknown'), undefined);
    assert.equal(looks, 4);
  });

  it('are looked for once for all who come with one at the same time', async () => {
    let looks = 0;
    const { db } = api.context;
    const asMaintenance: typeof db.asMaintenance = (work) => {
      looks++;
      return db.asMaintenance(work);
    };
    const authenticator = createAuthenticator({ ...db, asMaintenance });
    const { id, key } = await makeKey({});
    const callers = await Promise.all(Array.from({ length: 100 }, () => authenticator.byKey(key)));
    assert.deepEqual(new Set(callers.map((caller) => caller?.keyId)), new Set([id]));
    assert.equal(looks, 1);
  });

  it('that are revoked while they are looked for are not remembered', async () => {
    const { db } = api.context;
    let letGo: () => void = () => undefined;
    const held = new Promise<void>((resolve) => (letGo = resolve));
    let hasRead: () => void = () => undefined;
    const read = new Promise<void>((resolve) => (hasRead = resolve));
    const asMaintenance: typeof db.asMaintenance = async (work) => {
      const found = await db.asMaintenance(work);
      hasRead();
      await held;
      return found;
    };
    const authenticator = createAuthenticator({ ...db, asMaintenance });
    const { id, key } = await makeKey({});
    const before = authenticator.byKey(key);
    await read;
    await api.call('DELETE', `/v1/api-keys/${id}`);
    authenticator.forget(id);
    letGo();
    assert.equal((await before)?.keyId, id);
    assert.equal(await authenticator.byKey(key), undefined);
  });

  it('end a key when its time has come, though it is remembered', async () => {
    let nowMs = 0;
    const { key } = await makeKey({ expires_at: new Date(Date.now() + 3_600_000).toISOString() });
    const authenticator = createAuthenticator(api.context.db, () => nowMs);
    assert.ok(await authenticator.byKey(key));
    nowMs = 4000;
    assert.ok(await authenticator.byKey(key), 'it is remembered');
    nowMs = 3_600_001;
    assert.equal(await authenticator.byKey(key), undefined);
  });

  it('begin and end by the clock of the database, whatever the clock of the process says', async function () {
    // There they are one.
    if (DOMAIN_MODE === 'embedded') this.skip();
    const now = Date.now;
    const expires_at = new Date(now() + 600_000).toISOString();
    try {
      Date.now = () => now() + 3_600_000;
      const { key, id } = await makeKey({ expires_at });
      assert.equal((await api.call('GET', '/v1/agents', { key })).status, 200, 'a clock an hour ahead');
      Date.now = () => now() - 3_600_000;
      await expireKey(api.context.db, id);
      assert.equal(await createAuthenticator(api.context.db).byKey(key), undefined, 'a clock an hour behind');
    } finally {
      Date.now = now;
    }
  });

  it('refuse a key that expires in the past, has no scope or an unknown one', async () => {
    const body = { name: 'k', scopes: ['agents:read'] };
    const past = await api.call('POST', '/v1/api-keys', { body: { ...body, expires_at: '2020-01-01T00:00:00Z' } });
    assert.deepEqual([past.status, past.json.errors[0].path], [422, 'body.expires_at']);
    assert.equal((await api.call('POST', '/v1/api-keys', { body: { ...body, scopes: [] } })).status, 400);
    assert.equal((await api.call('POST', '/v1/api-keys', { body: { ...body, scopes: ['everything'] } })).status, 400);
  });

  it('are shown by their id, and given another name or end', async () => {
    const made = await makeKey({ name: 'first', scopes: ['agents:read'] });
    const path = `/v1/api-keys/${made.id}`;
    const { json, text } = await api.call('GET', path);
    assert.deepEqual([json.name, json.scopes, text.includes(made.key)], ['first', ['agents:read'], false]);
    const change = (body: unknown, key?: string) => api.call('PATCH', path, { body, ...(key && { key }) });
    const later = new Date(Date.now() + 3_600_000).toISOString();
    const changed = (await change({ name: 'second', expires_at: later })).json;
    assert.deepEqual([changed.name, changed.expires_at], ['second', later]);
    assert.equal((await change({ expires_at: null })).json.expires_at, null);
    assert.equal((await change({ expires_at: '2020-01-01T00:00:00Z' })).status, 422);
    assert.equal((await change({ scopes: ['admin'] })).status, 400);
    assert.equal((await api.call('GET', '/v1/agents', { key: made.key })).status, 200);
    const soon = new Date(Date.now() + 300).toISOString();
    assert.equal((await change({ expires_at: soon })).status, 200);
    await waitUntil(
      'it has ended',
      async () => (await api.call('GET', '/v1/agents', { key: made.key })).status === 401,
    );
    const elsewhere = await api.newTenant();
    assert.equal((await api.call('GET', path, { key: elsewhere.key })).status, 404);
    assert.equal((await change({ name: 'theirs' }, elsewhere.key)).status, 404);
    await api.call('DELETE', path);
    assert.equal((await change({ name: 'gone' })).status, 409);
  });

  it('let a key that is bound to a workspace make, see and revoke only such keys', async () => {
    const { json: agent } = await api.call('POST', '/v1/agents', { body: { name: newName() } });
    const { workspace_id } = (await api.call('GET', `/v1/agents/${agent.id}`)).json;
    const free = await makeKey({});
    const bound = await makeKey({ scopes: ['admin'], workspace_id });
    const child = await makeKey({ scopes: ['admin'] }, bound.key);
    assert.equal(child.workspace_id, workspace_id);
    const { json } = await api.call('GET', '/v1/api-keys', { key: bound.key });
    assert.deepEqual(
      json.api_keys.map(({ id }: { id: string }) => id),
      [child.id, bound.id],
    );
    for (const method of ['GET', 'DELETE']) {
      assert.equal((await api.call(method, `/v1/api-keys/${free.id}`, { key: bound.key })).status, 404);
    }
    assert.equal((await api.call('POST', '/v1/tenants', { key: bound.key, body: { name: 't' } })).status, 403);
  });

  it('refuse a workspace of another tenant for a key', async () => {
    const { workspace_id } = await api.newTenant();
    const body = { name: 'k', scopes: ['agents:read'], workspace_id };
    assert.equal((await api.call('POST', '/v1/api-keys', { body })).status, 422);
  });

  it('make tenants for the operator only, each with a key that works', async () => {
    const { key } = await api.newTenant();
    assert.equal((await api.call('GET', '/v1/agents', { key })).status, 200);
    assert.equal((await api.call('POST', '/v1/tenants', { key, body: { name: 'mine' } })).status, 403);
  });

  it('do not give a secret again to a repeated request', async () => {
    const headers = { 'idempotency-key': 'secret-1' };
    for (const [path, body] of [
      ['/v1/tenants', { name: 't' }],
      ['/v1/api-keys', { name: 'k', scopes: ['runs:read'] }],
    ] as const) {
      const first = await api.call('POST', path, { body, headers });
      const second = await api.call('POST', path, { body, headers });
      assert.equal(second.headers.get('idempotent-replayed'), 'true');
      const { key, ...rest } = first.json;
      assert.match(key, /^drv_/);
      assert.deepEqual(second.json, rest);
    }
    const kept = await keptAnswers(api.context.db);
    assert.ok(kept.length > 0);
    assert.doesNotMatch(JSON.stringify(kept), /drv_/);
  });

  it('replace the configured key when its variable changes, and keep it when it is absent', async () => {
    const { db } = api.context;
    const authenticator = () => createAuthenticator(db);
    await ensureDefaultTenant(db, { apiKey: 'the-new-one' });
    assert.equal(await authenticator().byKey(api.key), undefined);
    assert.equal((await authenticator().byKey('the-new-one'))?.isOperator, true);
    await ensureDefaultTenant(db);
    assert.equal((await authenticator().byKey('the-new-one'))?.isOperator, true);
    await ensureDefaultTenant(db, { apiKey: api.key });
    assert.equal(await authenticator().byKey('the-new-one'), undefined);
  });
});
