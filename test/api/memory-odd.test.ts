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
    const later = '2999-01-01T00:00:00.000Z';
    const { id: early } = (await add('The gate is open.', { valid_from: later })).json;
    await api.call('PATCH', path(`/${early}`), { body: { content: 'The gate is gone.' } });
    const { json } = await api.call('GET', path(`/${early}`));
    assert.deepEqual([json.status, json.valid_from, json.valid_to], ['superseded', later, later]);
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
    for (const name of ['-'.repeat(36), 'a'.repeat(36), '�', "'); drop table memory_spaces;", '../..']) {
      const { status, json } = await write('The bridge is closed.', { agent_id: name });
      assert.deepEqual([status, json.provenance?.created_by_agent], [201, name]);
      const query = new URLSearchParams({ space_id: space, query: 'bridge', agent_id: name });
      assert.equal((await api.call('GET', `/v1/memory/search?${query.toString()}`)).status, 200, name);
      const other = { agent_id: name, fragment_id: json.id, conflict_type: 'semantic_conflict' };
      assert.equal((await write('The bridge is open.', other)).status, 201);
      const resolved = { content: 'The bridge is open.', agent_id: name };
      assert.equal((await api.call('POST', `/v1/memory/fragments/${json.id}/resolve`, { body: resolved })).status, 200);
    }
  });

  it('may name threads, agents and teams by ids in upper case', async () => {
    const run = (await api.call('POST', `/v1/agents/${agent}/runs`, { body: { input: { message: 'Hello.' } } })).json;
    const thread: string = run.thread_id;
    const named = [{ thread_id: thread.toUpperCase() }, { metadata: { session_id: thread.toUpperCase() } }];
    for (const more of named) assert.equal((await add('It is of the thread.', more)).json.thread_id, thread);
    const listed = await api.call('GET', path(`?thread_id=${thread.toUpperCase()}`));
    assert.equal(listed.json.entries.length, 2);
    await api.call('DELETE', `/v1/threads/${thread}`);
    assert.deepEqual((await api.call('GET', path(`?thread_id=${thread}`))).json.entries, []);
    const members = [{ agent_id: agent, role: 'scout' }];
    const team = (await api.call('POST', '/v1/teams', { body: { name: `team ${randomUUID()}`, members } })).json.id;
    const seen = async (body: object, who: string) => {
      const { json } = await api.call('POST', '/v1/memory/spaces', { body });
      return (await api.call('GET', `/v1/memory/search?space_id=${json.id}&agent_id=${who}`)).status;
    };
    for (const [who, other] of [
      [agent, agent.toUpperCase()],
      [agent.toUpperCase(), agent],
    ] as const) {
      assert.equal(await seen({ denied_agents: [who] }, other), 403);
      assert.equal(await seen({ team_id: team.toUpperCase() }, who), 200);
    }
  });

  it('may name a thread by its external id in metadata, and are forgotten with it', async () => {
    const run = (await api.call('POST', `/v1/agents/${agent}/runs`, { body: { input: { message: 'Hello.' } } })).json;
    const thread: string = run.thread_id;
    const said = (conversation_id: string) => add('It is of the thread.', { metadata: { conversation_id } });
    const external_id = randomUUID().padEnd(200, 'x');
    assert.equal((await said(`ext:${external_id}`)).status, 404);
    await api.call('PATCH', `/v1/threads/${thread}`, { body: { external_id } });
    const { status, json } = await said(`ext:${external_id}`);
    assert.deepEqual([status, json.thread_id, json.metadata.conversation_id], [201, thread, `ext:${external_id}`]);
    assert.equal((await said('ext:')).json.thread_id, 'ext:', 'this names no thread');
    await api.call('DELETE', `/v1/threads/ext:${external_id}`);
    assert.equal((await api.call('GET', path(`/${json.id}`))).status, 404);
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

  it('are answered page by page, and a page ends where it is large enough', async () => {
    const mostBytes = 5_000_000;
    /** The ids on all pages of a list, each as long as it may be. */
    const pages = async (base: string, field: string) => {
      const ids: string[] = [];
      for (let cursor = '', n = 0; n < 20; n++) {
        const { json, text, status } = await api.call('GET', `${base}${cursor}`);
        assert.equal(status, 200, text);
        assert.ok(text.length < mostBytes, `${text.length} bytes`);
        ids.push(...json[field].map((each: { id: string }) => each.id));
        if (json.next_cursor === undefined) return { ids, pages: n + 1 };
        cursor = `${base.includes('?') ? '&' : '?'}cursor=${encodeURIComponent(json.next_cursor)}`;
      }
      return assert.fail('it has no end');
    };
    const memory_config = { consolidation: { min_age_hours: 0, importance_threshold: 1 } };
    const { id: own } = (await api.call('POST', '/v1/agents', { body: { name: `a ${randomUUID()}`, memory_config } }))
      .json;
    const of = `/v1/agents/${own}/memory`;
    const long = (n: number) => `${n} ${'🌊'.repeat(49_000)}`;
    const added: string[] = [];
    for (let n = 0; n < 25; n++) {
      const body = { content: long(n), memory_type: 'SHORT_TERM', relevance_score: 0 };
      added.push((await api.call('POST', of, { body })).json.id);
    }
    const listed = await pages(`${of}?limit=200`, 'entries');
    assert.deepEqual([listed.ids, listed.pages > 1], [added, true]);
    await api.call('POST', `${of}/consolidate`, { body: { strategy: 'importance' } });
    const archived = await pages(`${of}/archive?limit=200`, 'entries');
    assert.deepEqual([archived.ids, archived.pages > 1], [added.toReversed(), true]);
    const versions: string[] = [];
    versions.push((await api.call('POST', of, { body: { content: long(0), memory_type: 'SEMANTIC' } })).json.id);
    for (let n = 1; n < 25; n++) {
      const { json, text } = await api.call('PATCH', `${of}/${versions.at(-1)}`, { body: { content: long(n) } });
      assert.ok(text.length < mostBytes);
      versions.push(json.id);
    }
    const history = await pages(`${of}/${versions.at(-1)}`, 'history');
    assert.deepEqual([history.ids, history.pages > 1], [versions.toReversed(), true]);
  });
});
