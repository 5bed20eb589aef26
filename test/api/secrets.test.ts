import assert from 'node:assert/strict';
import { startTestApi, type TestApi } from '../support/api.ts';

describe('/v1/secrets', () => {
  let api: TestApi;
  before(async () => {
    api = await startTestApi();
  });
  after(() => api.close());

  const put = (name: string, body: unknown) => api.call('PUT', `/v1/secrets/${name}`, { body });

  it('stores, replaces, lists and deletes, and never shows a value', async () => {
    const made = await put('github.token', { value: 'c4nary-one' });
    assert.equal(made.status, 201);
    assert.deepEqual(Object.keys(made.json).toSorted(), ['created_at', 'id', 'name', 'updated_at']);
    assert.equal(made.json.id, 'github.token');
    const replaced = await put('github.token', { value: 'c4nary-two' });
    assert.equal(replaced.status, 200);
    assert.equal(replaced.json.created_at, made.json.created_at);
    assert.ok(replaced.json.updated_at > made.json.updated_at);
    const got = await api.call('GET', '/v1/secrets/github.token');
    assert.deepEqual(got.json, replaced.json);
    const listed = await api.call('GET', '/v1/secrets');
    assert.deepEqual(listed.json, { secrets: [replaced.json] });
    for (const { text } of [made, replaced, got, listed]) assert.doesNotMatch(text, /c4nary/);
    assert.equal((await api.call('DELETE', '/v1/secrets/github.token')).status, 204);
    assert.equal((await api.call('DELETE', '/v1/secrets/github.token')).status, 404);
    assert.equal((await api.call('GET', '/v1/secrets/github.token')).status, 404);
  });

  it('pages by name', async () => {
    const names = ['B', 'a', 'a-b', 'a.b', 'a_b', 'ab'];
    for (const name of names) await put(name, { value: 'value' });
    const seen: string[] = [];
    let cursor = '';
    do {
      const { json } = await api.call('GET', `/v1/secrets?limit=2${cursor && `&cursor=${cursor}`}`);
      seen.push(...json.secrets.map((secret: { name: string }) => secret.name));
      cursor = json.next_cursor ?? '';
    } while (cursor !== '');
    assert.deepEqual(seen, names);
  });

  it('takes nothing that could not be used, and does not repeat a value that it refuses', async () => {
    const refused = [
      await put('x', {}),
      await put('x', { value: '' }),
      await put('x', { value: 7 }),
      await put('x', { value: 'c4nary', more: 'c4nary' }),
      await put('x', { value: 'c4nary'.repeat(6000) }),
      await put('with%20space', { value: 'c4nary' }),
      await put('.hidden', { value: 'c4nary' }),
      await put('p%C3%A4ss', { value: 'c4nary' }),
      await put('a'.repeat(201), { value: 'c4nary' }),
    ];
    for (const { status, text } of refused) {
      assert.equal(status, 400, text);
      assert.doesNotMatch(text, /c4nary/);
    }
    assert.equal((await put('x', { value: 'ä'.repeat(16_384) })).status, 201);
  });

  it('is for admin keys alone', async () => {
    const body = { name: 'tools', scopes: ['tools:write', 'tools:read', 'agents:write'] };
    const { json } = await api.call('POST', '/v1/api-keys', { body });
    for (const [method, path] of [
      ['GET', '/v1/secrets'],
      ['GET', '/v1/secrets/x'],
      ['PUT', '/v1/secrets/x'],
      ['DELETE', '/v1/secrets/x'],
    ] as const) {
      const answer = await api.call(method, path, {
        key: json.key,
        ...(method === 'PUT' ? { body: { value: 'value' } } : {}),
      });
      assert.equal(answer.status, 403, `${method} ${path}`);
    }
  });
});
