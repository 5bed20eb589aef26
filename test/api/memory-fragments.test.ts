import assert from 'node:assert/strict';
import { startTestApi, type TestApi } from '../support/api.ts';

describe('A fragment of a space', () => {
  let api: TestApi;
  let space: string;

  before(async () => {
    api = await startTestApi(undefined, { env: { DROVER_EMBEDDING_MODEL: 'off' } });
  });
  after(() => api.close());
  beforeEach(async () => {
    space = (await api.call('POST', '/v1/memory/spaces', { body: { name: 'facts' } })).json.id;
  });

  const send = (data: unknown, more: object = {}) => {
    const content = { type: typeof data === 'string' ? 'text' : 'structured', data };
    return api.call('POST', '/v1/memory/write', { body: { space_id: space, content, ...more } });
  };
  const write = async (data: unknown, more: object = {}) => {
    const { json, status, text } = await send(data, more);
    assert.equal(status, 201, text);
    return json;
  };
  const resolve = (id: string, agent: string) =>
    api.call('POST', `/v1/memory/fragments/${id}/resolve`, {
      body: { content: 'The code is not under the mat.', agent_id: agent },
    });
  const get = async (id: string) => (await api.call('GET', `/v1/memory/fragments/${id}`)).json;
  const seen = async (agent: string, more = '') => {
    const path = `/v1/memory/search?space_id=${space}&agent_id=${agent}${more}`;
    return (await api.call('GET', path)).json.fragments.map(({ id }: { id: string }) => id);
  };

  it('says when it was last found, and how often: neither a write nor a look at it counts', async () => {
    const { id, last_accessed: first } = await write('The code is under the mat.', { agent_id: 'ada' });
    await write('The code is under the other mat.', { agent_id: 'ada', fragment_id: id });
    const uses = async () => {
      const { last_accessed: last, access_count: count } = await get(id);
      return { last, count };
    };
    assert.equal(first, null);
    assert.deepEqual(await uses(), { last: null, count: 0 });
    await seen('ada');
    const { last, count } = await uses();
    assert.equal(count, 1);
    assert.ok(Math.abs(Date.now() - Date.parse(last)) < 60_000, last);
    await seen('ada', '&query=code%20mat&min_relevance=0');
    const path = `/v1/memory/search?space_id=${space}&query=code%20mat&min_relevance=0`;
    const [found] = (await api.call('GET', path)).json.fragments;
    assert.ok(found.last_accessed > last);
    await write('The code is nowhere.', { agent_id: 'ada', fragment_id: id });
    assert.equal((await uses()).count, 3);
  });

  it('is seen, written and decided on by those whom it names, and by nobody else', async () => {
    for (const visibility of ['private', 'team']) {
      const { id } = await write('The code is under the mat.', {
        agent_id: 'ada',
        visibility,
        allowed_agents: ['ada', 'bob'],
      });
      for (const [agent, isIn] of [
        ['ada', true],
        ['bob', true],
        ['eve', false],
      ] as const) {
        const about = `${agent} ${visibility}`;
        assert.equal((await seen(agent)).includes(id), isIn, about);
        assert.equal((await seen(agent, '&query=code%20mat&min_relevance=0')).includes(id), isIn, about);
        const change = { fragment_id: id, agent_id: agent };
        const both = { ...change, conflict_type: 'semantic_conflict' };
        assert.equal((await send('The code is under the mat again.', both)).status, isIn ? 201 : 404, about);
        assert.equal((await resolve(id, agent)).status, isIn ? 200 : 404, about);
      }
      const { visibility: now, allowed_agents: allowed } = await get(id);
      assert.deepEqual(
        [now, allowed],
        [visibility, ['ada', 'bob']],
        'a write that does not speak of it changes neither',
      );
    }
  });

  it('is written in its own space alone', async () => {
    const { id } = await write('The code is under the mat.');
    space = (await api.call('POST', '/v1/memory/spaces', { body: { name: 'others' } })).json.id;
    assert.equal((await send('The code is gone.', { fragment_id: id })).status, 404);
    assert.equal((await get(id)).version, 1);
  });

  it('has the end that was named until a write names another one', async () => {
    const [first, second] = ['2120-01-01T00:00:00.000Z', '2130-01-01T00:00:00.000Z'];
    const { id } = await write('The code is under the mat.', { expires_at: first });
    assert.equal((await write('The code is under the pot.', { fragment_id: id })).expires_at, first);
    assert.equal((await write('The code is gone.', { fragment_id: id, expires_at: second })).expires_at, second);
  });

  it('is found where it fits, and only as well as is asked for', async () => {
    const { id } = await write('The ferry to the island leaves at noon.');
    assert.deepEqual(await seen('ada', '&query=ferry%20island&min_relevance=0.5'), [id]);
    assert.deepEqual(await seen('ada', '&query=ferry%20zebra%20giraffe%20lion&min_relevance=0.9'), []);
    assert.deepEqual(await seen('ada', '&query=ferry%20zebra%20giraffe%20lion&min_relevance=0'), [id]);
  });

  it('stays open while others write beside what is asked about, and an answer to what it was before comes too late', async () => {
    const { id } = await write({ a: 1, b: 1 });
    await write({ a: 2, b: 1 }, { fragment_id: id });
    assert.deepEqual((await write({ a: 3, b: 1 }, { fragment_id: id, base_version: 1 })).conflicts, ['a']);
    const { approvals } = (await api.call('GET', '/v1/approvals?status=pending')).json;
    const asked = approvals.find(({ fragment_id: about }: { fragment_id: string }) => about === id);
    const beside = await write({ a: 1, b: 2 }, { fragment_id: id, base_version: 1 });
    assert.deepEqual([beside.conflicts, beside.requires_resolution, beside.content.data.b], [[], true, 2]);
    const late = await api.call('POST', `/v1/approvals/${asked.id}`, { body: { decision: 'approve' } });
    assert.equal(late.status, 409, late.text);
    assert.deepEqual([(await get(id)).version, (await get(id)).content.data.b], [4, 2]);
  });

  const asked = async (id: string) => {
    const { approvals } = (await api.call('GET', '/v1/approvals?status=pending')).json;
    return approvals.filter(({ fragment_id: about }: { fragment_id: string }) => about === id);
  };
  const decide = async (approval: { id: string } | undefined, decision: string) => {
    const { status, text } = await api.call('POST', `/v1/approvals/${approval?.id}`, { body: { decision } });
    assert.equal(status, 200, text);
  };

  it('asks again about the contradiction that is left when a later one is denied', async () => {
    const both = { conflict_type: 'semantic_conflict' };
    const { id } = await write('in May');
    await write('in June', { fragment_id: id, ...both });
    await write('in July', { fragment_id: id, ...both });
    const [last, ...others] = await asked(id);
    assert.deepEqual(others, []);
    await decide(last, 'deny');
    const left = await get(id);
    assert.deepEqual([left.version, left.requires_resolution, left.provenance.resolved], [4, true, false]);
    assert.deepEqual([left.content.data.version_a, left.content.data.version_b], ['in May', 'in June']);
    const [again, ...more] = await asked(id);
    assert.deepEqual([again.arguments.version_a.data, again.arguments.version_b.data, more], ['in May', 'in June', []]);
    await decide(again, 'deny');
    const { content, requires_resolution: isOpen } = await get(id);
    assert.deepEqual([content.data, isOpen, await asked(id)], ['in May', false, []]);
  });

  it('is not merged into the two sides of a contradiction, which is open again when the merge is denied', async () => {
    const { id } = await write({ p: 1, q: 1 });
    const { content: open } = await write({ p: 2, q: 1 }, { fragment_id: id, conflict_type: 'semantic_conflict' });
    const write3 = { p: 1, q: 3 };
    const merged = await write(write3, { fragment_id: id, base_version: 1 });
    assert.deepEqual(merged.content.data, { conflict: true, a: open.data, b: write3 });
    await decide((await asked(id))[0], 'deny');
    const left = await get(id);
    assert.deepEqual([left.content, left.requires_resolution], [open, true]);
    await decide((await asked(id))[0], 'approve');
    assert.deepEqual((await get(id)).content.data, { p: 2, q: 1 });
  });

  it('has the type of what it says where an object and a text are merged', async () => {
    const { id } = await write({ a: 1 });
    await write({ a: 2 }, { fragment_id: id });
    const both = await write('It is three.', { fragment_id: id, base_version: 1 });
    assert.deepEqual([both.content.type, both.conflicts.length], ['structured', 1]);
    const { id: left } = await write({ a: 1 });
    await write('It is two.', { fragment_id: left });
    const same = await write({ a: 1 }, { fragment_id: left, base_version: 1 });
    assert.deepEqual(same.content, { type: 'text', data: 'It is two.' });
  });
});
