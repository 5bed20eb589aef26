import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { startTestApi, type TestApi } from '../support/api.ts';

describe('Odd requests about memory', () => {
  let api: TestApi;
  let agent: string;
  let space: string;

  before(async () => {
    api = await startTestApi();
    agent = (await api.call('POST', '/v1/agents', { body: { name: `agent ${randomUUID()}` } })).json.id;
    space = (await api.call('POST', '/v1/memory/spaces', { body: {} })).json.id;
  });
  after(() => api.close());

  const path = (rest = '') => `/v1/agents/${agent}/memory${rest}`;
  const add = (content: string, more: object = {}) =>
    api.call('POST', path(), { body: { content, memory_type: 'SEMANTIC', ...more } });
  const write = (content: unknown, more: object = {}) =>
    api.call('POST', '/v1/memory/write', { body: { space_id: space, content, ...more } });

  it('may name times at the ends of the calendar, and are refused beyond them', async () => {
    const fields = ['valid_from', 'valid_to', 'expires_at'];
    for (const beyond of ['0000-12-31T23:59:59Z', '0001-01-01T00:00:00+14:00', '9999-12-31T23:59:59-12:00']) {
      for (const field of fields) assert.equal((await add('x', { [field]: beyond })).status, 400, `${field} ${beyond}`);
      assert.equal((await write('x', { expires_at: beyond })).status, 400);
      assert.equal((await write('x', { lifecycle: { expires_at: beyond } })).status, 400);
      assert.equal((await api.call('POST', path('/query'), { body: { query: 'x', at: beyond } })).status, 400);
      assert.equal((await api.call('GET', path(`?created_after=${encodeURIComponent(beyond)}`))).status, 400);
    }
    for (const end of ['0001-01-01T00:00:00.000Z', '9999-12-31T23:59:59.999Z']) {
      const { status, json } = await add('Ada lives in Oslo.', { valid_from: end, valid_to: end });
      assert.deepEqual([status, json.valid_from, json.valid_to], [201, end, end]);
      const asked = { query: 'Where did Ada live two weeks ago, or last year?', at: end };
      assert.equal((await api.call('POST', path('/query'), { body: asked })).status, 200);
    }
    assert.equal((await write('x', { expires_at: '9999-12-31T23:59:59.999Z' })).status, 201);
  });

  it('name no end before the beginning', async () => {
    const [from, to] = ['2026-01-01T00:00:00Z', '2025-12-31T00:00:00Z'];
    const refused = await add('The gate is shut.', { valid_from: from, valid_to: to });
    assert.deepEqual(
      [refused.status, refused.json.errors],
      [400, [{ path: 'body.valid_to', message: 'is before valid_from' }]],
    );
    const { id } = (await add('The gate is shut.', { valid_from: from })).json;
    const patched = await api.call('PATCH', path(`/${id}`), { body: { valid_to: to } });
    assert.deepEqual([patched.status, patched.json.errors], [400, refused.json.errors]);
    assert.equal((await api.call('PATCH', path(`/${id}`), { body: { valid_to: from } })).status, 200);
  });

  it('may have moments in their metadata that no calendar has', async () => {
    const times = [1e300, -1e300, 8.64e15, '+275760-09-13', 'Jan 1 -2000', '99999999', -62_135_596_800_000_000];
    for (const at of times) assert.equal((await add('Bob ate figs.', { metadata: { occurred_at: at } })).status, 201);
    const { status, json } = await api.call('POST', path('/query'), {
      body: { query: 'figs of yesterday', top_k: 50 },
    });
    assert.deepEqual([status, json.entries.length], [200, times.length]);
  });

  it('may name agents that are none, in whatever form', async () => {
    for (const name of ['-'.repeat(36), 'a'.repeat(36), '�', "'); drop table memory_spaces;", '../..', randomUUID()]) {
      const { status, json } = await write('The bridge is closed.', { agent_id: name });
      assert.deepEqual([status, json.provenance?.created_by_agent], [201, name]);
      const query = new URLSearchParams({ space_id: space, query: 'bridge', agent_id: name });
      assert.equal((await api.call('GET', `/v1/memory/search?${query.toString()}`)).status, 200, name);
      const resolved = { content: 'The bridge is open.', agent_id: name };
      assert.equal((await api.call('POST', `/v1/memory/fragments/${json.id}/resolve`, { body: resolved })).status, 200);
    }
  });

  it('may keep what is written for longer than there are dates', async () => {
    const made = await api.call('POST', '/v1/memory/spaces', { body: { retention_policy: '999999y' } });
    assert.equal(made.status, 201);
    const { status, json } = await write('The bridge is closed.', { space_id: made.json.id });
    assert.deepEqual([status, json.expires_at], [201, null]);
  });

  it('may be of signs alone, of which none is parted', async () => {
    const conversation = `a${'😀'.repeat(150)}`;
    const said = await add('Bob ate plums.', { metadata: { conversation_id: conversation } });
    assert.deepEqual([said.status, said.json.thread_id], [201, `a${'😀'.repeat(99)}`]);
    const memory_config = { consolidation: { min_age_hours: 0, importance_threshold: 0, max_entry_tokens: 30 } };
    const other = (await api.call('POST', '/v1/agents', { body: { name: `agent ${randomUUID()}`, memory_config } }))
      .json.id;
    const body = { content: `a${'😀'.repeat(500)}`, memory_type: 'SHORT_TERM' };
    assert.equal((await api.call('POST', `/v1/agents/${other}/memory`, { body })).status, 201);
    const { status, json } = await api.call('POST', `/v1/agents/${other}/memory/consolidate`, { body: {} });
    assert.deepEqual([status, json.consolidated], [200, 1]);
  });
});
