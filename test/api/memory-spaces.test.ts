import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { LIMITS } from '../../core/limits.ts';
import { maintain } from '../../modules/platform/maintain.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { sized } from '../support/size.ts';

describe('/v1/memory spaces', () => {
  let api: TestApi;
  let space: string;

  before(async () => {
    api = await startTestApi();
  });
  after(() => api.close());
  beforeEach(async () => {
    space = (await make()).space_id;
  });

  const make = async (body: Record<string, unknown> = {}) => {
    const { json, status, text } = await api.call('POST', '/v1/memory/spaces', { body: { name: 'team', ...body } });
    assert.equal(status, 201, text);
    return json;
  };
  const send = (data: unknown, more: Record<string, unknown> = {}) =>
    api.call('POST', '/v1/memory/write', {
      body: { space_id: space, content: { type: typeof data === 'string' ? 'text' : 'structured', data }, ...more },
    });
  const write = async (data: unknown, more: Record<string, unknown> = {}) => {
    const answer = await send(data, more);
    assert.equal(answer.status, 201, answer.text);
    return answer.json;
  };
  const search = async (query: string, more = '') => {
    const answer = await api.call(
      'GET',
      `/v1/memory/search?space_id=${space}&query=${encodeURIComponent(query)}${more}`,
    );
    assert.equal(answer.status, 200, answer.text);
    return answer.json.fragments;
  };
  const get = async (id: string) => (await api.call('GET', `/v1/memory/fragments/${id}`)).json;

  it('take fragments and find them with their provenance', async () => {
    const data = { finding: 'Competitor X has 30% market share', source: 'Industry Report 2025', confidence: 0.85 };
    const made = await write(data, { visibility: 'team', agent_id: 'scout', provenance: { confidence: 0.85 } });
    assert.deepEqual([made.version, made.visibility, made.fragment_id], [1, 'team', made.id]);
    await write('The office is closed on Fridays.');
    const [hit, ...others] = await search('market share of competitor X');
    assert.deepEqual(hit.content, { type: 'structured', data });
    assert.ok(hit.relevance_score >= 0.7);
    assert.deepEqual([hit.provenance.created_by_agent, hit.provenance.confidence], ['scout', 0.85]);
    assert.deepEqual(others, []);
    assert.deepEqual(await search('submarine'), []);
    const plain = await api.call('POST', '/v1/memory/write', { body: { space_id: space, content: 'A plain text.' } });
    assert.deepEqual([plain.status, plain.json.content], [201, { type: 'text', data: 'A plain text.' }]);
  });

  it('show a fragment only to those who may see it', async () => {
    await write('The secret plan of ada.', { agent_id: 'ada', visibility: 'private' });
    await write('The open plan of ada.', { agent_id: 'ada', denied_agents: ['eve'] });
    const seen = async (agent: string) => (await search('plan of ada', `&min_relevance=0&agent_id=${agent}`)).length;
    assert.deepEqual([await seen('ada'), await seen('bob'), await seen('eve')], [2, 1, 0]);
    await write('The shared plan of ada.', { agent_id: 'ada', visibility: 'private', allowed_agents: ['bob'] });
    assert.deepEqual([await seen('bob'), await seen('eve')], [2, 0], 'what is private is seen by those whom it names');
    const closed = await make({ allowed_agents: ['ada'] });
    assert.equal((await send('x', { space_id: closed.id, agent_id: 'eve' })).status, 403);
    assert.equal((await send('x', { space_id: closed.id, agent_id: 'ada' })).status, 201);
    const asks = (agent: string) =>
      api.call('GET', `/v1/memory/search?space_id=${closed.id}&query=x&min_relevance=0&agent_id=${agent}`);
    assert.deepEqual([(await asks('eve')).status, (await asks('ada')).status], [403, 200]);
  });

  it('neither show a fragment to the agent that it denies nor let it write there, though it made it', async () => {
    const { id } = await write('The plan of ada.', { agent_id: 'ada' });
    await write('The plan without ada.', { fragment_id: id, agent_id: 'ada', denied_agents: ['ada'] });
    assert.deepEqual(await search('plan', '&min_relevance=0&agent_id=ada'), []);
    assert.equal((await send('The plan of ada again.', { fragment_id: id, agent_id: 'ada' })).status, 404);
    const body = { content: 'mine', agent_id: 'ada' };
    assert.equal((await api.call('POST', `/v1/memory/fragments/${id}/resolve`, { body })).status, 404);
    assert.equal((await get(id)).content.data, 'The plan without ada.');
  });

  it('show nobody what has expired, nor let it be written, before it is swept', async () => {
    const { id } = await write('the report of May');
    const past = '2020-01-01T00:00:00Z';
    assert.equal((await write('the report of June', { fragment_id: id, expires_at: past })).version, 2);
    assert.equal((await api.call('GET', `/v1/memory/fragments/${id}`)).status, 404);
    assert.equal((await send('the report of July', { fragment_id: id })).status, 404);
    const body = { content: 'none' };
    assert.equal((await api.call('POST', `/v1/memory/fragments/${id}/resolve`, { body })).status, 404);
  });

  it('of a team that there is not let in nobody but whom they allow', async () => {
    for (const team of ['no team at all', randomUUID()]) {
      const closed = await make({ team_id: team, allowed_agents: ['ada'] });
      const statuses = ['eve', 'ada'].map(
        async (agent) => (await send('x', { space_id: closed.id, agent_id: agent })).status,
      );
      assert.deepEqual(await Promise.all(statuses), [403, 201]);
      const open = await make({ team_id: team });
      assert.equal((await send('x', { space_id: open.id, agent_id: 'eve' })).status, 403);
    }
  });

  it('know the agents and workflows that are named by an id, and those of the workspace alone', async () => {
    const { key } = await api.newTenant();
    const post = async (path: string, body: unknown, of?: string) =>
      (await api.call('POST', path, { body, ...(of && { key: of }) })).json;
    const theirs: string = (await post('/v1/agents', { name: 'theirs' }, key)).agent_id;
    const ours: string = (await post('/v1/agents', { name: `ours ${randomUUID()}` })).agent_id;
    const definition = { subtasks: [{ id: 'a', description: 'one' }] };
    const workflow = { name: 'w', agent_id: ours, input: { user_query: 'q' }, definition };
    const { id: begun } = await post('/v1/workflows', workflow);
    const { id } = await write('The plan.', { agent_id: ours });
    const asking = (who: string) => [
      send('x', { agent_id: who }),
      send('x', { provenance: { created_by_agent: who } }),
      send('x', { allowed_agents: [ours, who] }),
      send('x', { fragment_id: id, access_control: { denied_agents: [who] } }),
      api.call('POST', `/v1/memory/fragments/${id}/resolve`, { body: { content: 'mine', agent_id: who } }),
      api.call('GET', `/v1/memory/search?space_id=${space}&query=plan&agent_id=${who}`),
      api.call('GET', `/v1/memory/search?query=plan&agent_id=${who}`),
      ...['allowed_agents', 'denied_agents'].map((list) =>
        api.call('POST', '/v1/memory/spaces', { body: { [list]: [who] } }),
      ),
    ];
    for (const who of [randomUUID(), theirs, theirs.toUpperCase()]) {
      const refused = await Promise.all(asking(who));
      assert.deepEqual([...new Set(refused.map(({ status }) => status))], [404], who);
      assert.ok(refused.every(({ json }) => json.detail.includes(who.toLowerCase())));
    }
    assert.deepEqual([(await get(id)).version, (await get(id)).content.data], [1, 'The plan.']);
    const made = async (workflow_id: string) =>
      (await api.call('POST', '/v1/memory/spaces', { body: { workflow_id } })).status;
    assert.deepEqual([await made(begun), await made('w'), await made(randomUUID())], [201, 201, 404]);
  });

  it('name agents that were deleted since, who are agents still', async () => {
    const { agent_id: gone } = (await api.call('POST', '/v1/agents', { body: { name: `gone ${randomUUID()}` } })).json;
    const closed = await make({ allowed_agents: [gone] });
    await write('What it knew.', { space_id: closed.id, agent_id: gone, allowed_agents: [gone] });
    await api.call('DELETE', `/v1/agents/${gone}`);
    assert.equal((await api.call('GET', `/v1/memory/spaces/${closed.id}`)).status, 200);
    const asked = `/v1/memory/search?space_id=${closed.id}&query=knew&min_relevance=0&agent_id=${gone}`;
    assert.equal((await api.call('GET', asked)).json.fragments.length, 1);
    assert.equal((await send('More.', { space_id: closed.id, agent_id: gone })).status, 201);
  });

  it('let nobody resolve what is not theirs to see', async () => {
    const resolve = async (id: string, agent: string) => {
      const body = { content: 'mine now', agent_id: agent };
      return (await api.call('POST', `/v1/memory/fragments/${id}/resolve`, { body })).status;
    };
    const { id } = await write('The secret plan of ada.', { agent_id: 'ada', visibility: 'private' });
    assert.equal(await resolve(id, 'eve'), 404);
    assert.equal((await get(id)).content.data, 'The secret plan of ada.');
    await write('No plan.', { agent_id: 'ada', fragment_id: id, conflict_type: 'semantic_conflict' });
    assert.equal(await resolve(id, 'ada'), 200);
    const closed = await make({ denied_agents: ['eve'] });
    const open = await write('The open plan of ada.', { space_id: closed.id, agent_id: 'ada' });
    const hidden = await write('The hidden plan.', { space_id: closed.id, agent_id: 'ada', visibility: 'private' });
    const asked = [resolve(open.id, 'eve'), resolve(hidden.id, 'eve'), resolve(hidden.id, 'bob')];
    assert.deepEqual(await Promise.all(asked), [403, 403, 404]);
  });

  it('refuse a write from a version that there has never been', async () => {
    const { id } = await write('one');
    const ahead = await send('two', { fragment_id: id, base_version: 7 });
    assert.deepEqual([ahead.status, ahead.json.current_version], [409, 1]);
    assert.equal((await send('new', { expected_version: 3 })).status, 409);
    const nowhere = await send('new', { base_version: 1 });
    assert.deepEqual([nowhere.status, nowhere.json.current_version], [409, 0]);
    assert.equal((await send('new', { expected_version: 0 })).status, 201);
    assert.equal((await get(id)).content.data, 'one');
  });

  it('refuse a write that expected another version, and show both', async () => {
    const { id } = await write('one');
    assert.equal((await write('two', { fragment_id: id, expected_version: 1 })).version, 2);
    const stale = await send('three', { fragment_id: id, expected_version: 1 });
    assert.equal(stale.status, 409);
    assert.deepEqual([stale.json.expected_version, stale.json.current_version], [1, 2]);
    assert.equal(stale.json.current.content.data, 'two');
    assert.equal((await get(id)).content.data, 'two');
  });

  it('let the last writer win where nobody says what it had read, with provenance', async () => {
    const { id } = await write('one', { agent_id: 'ada' });
    await write('two', { fragment_id: id, agent_id: 'bob' });
    const now = await get(id);
    assert.deepEqual([now.content.data, now.version], ['two', 2]);
    assert.deepEqual([now.provenance.created_by_agent, now.provenance.previous_versions], ['bob', [1]]);
    assert.deepEqual(
      now.history.map(({ content }: { content: { data: string } }) => content.data),
      ['two', 'one'],
    );
  });

  it('have their versions page by page, and a page ends where it is large enough', async () => {
    const { id } = await write('one');
    for (const data of ['two', 'three']) await write(data, { fragment_id: id });
    const page = async (query: string) => (await api.call('GET', `/v1/memory/fragments/${id}?${query}`)).json;
    const said = ({ history }: { history: { content: { data: string } }[] }) =>
      history.map(({ content }) => content.data);
    const first = await page('limit=2');
    assert.deepEqual([said(first), first.content.data], [['three', 'two'], 'three']);
    const rest = await page(`limit=2&cursor=${first.next_cursor}`);
    assert.deepEqual([said(rest), rest.content.data, rest.next_cursor], [['one'], 'three', undefined]);
    for (let index = 0; index < 18; index++) await write('x'.repeat(250_000), { fragment_id: id });
    const { history, next_cursor: next } = await page('limit=200');
    assert.ok(history.length > 10 && history.length < 18, String(history.length));
    assert.equal((await page(`cursor=${next}`)).history.length, 21 - history.length);
  });

  it('merge a write from an older version by field, and by words', async () => {
    const { id } = await write({ a: 1, b: 1, c: 1 });
    await write({ a: 2, b: 1, c: 2 }, { fragment_id: id, base_version: 1 });
    const merged = await write({ a: 1, b: 3, c: 3 }, { fragment_id: id, base_version: 1 });
    assert.deepEqual([merged.merged, merged.conflicts, merged.version], [true, ['c'], 3]);
    assert.deepEqual(merged.content.data, { a: 2, b: 3, c: { conflict: true, a: 2, b: 3 } });
    assert.equal(merged.requires_resolution, true);
    const { id: text } = await write('the quick brown fox jumps');
    await write('the slow brown fox jumps', { fragment_id: text, base_version: 1 });
    const both = await write('the quick brown fox sleeps', { fragment_id: text, base_version: 1 });
    assert.deepEqual([both.content.data, both.conflicts], ['the slow brown fox sleeps', []]);
  });

  it('have no more than 262,144 bytes, as they are written and as they are merged', async () => {
    const status = async (data: unknown, more = {}) => (await send(data, more)).status;
    assert.deepEqual([await status('é'.repeat(131_072)), await status('é'.repeat(131_073))], [201, 400]);
    const plain = { space_id: space, content: 'é'.repeat(131_073) };
    assert.equal((await api.call('POST', '/v1/memory/write', { body: plain })).status, 400);
    const { id } = await write({ a: 1 });
    const old = { fragment_id: id, base_version: 1 };
    const long = 'x'.repeat(140_000);
    assert.deepEqual([await status({ a: 1, b: long }, old), await status({ a: 1, c: long }, old)], [201, 422]);
    assert.deepEqual((await get(id)).content.data, { a: 1, b: long });
  });

  it('keep both sides of a contradiction until somebody resolves it', async () => {
    const { id } = await write('The launch is in May.');
    const both = await write('The launch is in June.', {
      fragment_id: id,
      conflict_type: 'semantic_conflict',
      agent_id: 'bob',
    });
    assert.equal(both.requires_resolution, true);
    const { data } = both.content;
    assert.deepEqual(
      [data.conflict_detected, data.version_a, data.version_b],
      [true, 'The launch is in May.', 'The launch is in June.'],
    );
    const resolved = await api.call('POST', `/v1/memory/fragments/${id}/resolve`, {
      body: { content: 'The launch is in June.' },
    });
    assert.equal(resolved.status, 200, resolved.text);
    assert.deepEqual(
      [resolved.json.requires_resolution, resolved.json.content.data, resolved.json.version],
      [false, 'The launch is in June.', 3],
    );
    const resolve = (content: string) => api.call('POST', `/v1/memory/fragments/${id}/resolve`, { body: { content } });
    const again = await resolve('The launch is in June.');
    assert.deepEqual([again.status, again.json.version], [200, 3], 'the same decision again changes nothing');
    const late = await resolve('The launch is in July.');
    assert.deepEqual([late.status, (await get(id)).version], [409, 3]);
    assert.match(late.json.detail, /no conflict/);
    await write('The launch is in June.', { fragment_id: id });
    assert.equal((await resolve('The launch is in June.')).status, 409, 'somebody has written it since');
    const { json } = await api.call('GET', '/v1/audit?limit=20');
    const actions = json.audit.map(({ action }: { action: string }) => action);
    assert.ok(actions.includes('memory.conflicted') && actions.includes('memory.resolved'));
  });

  it('take no more fragments than they may have, and forget what is deleted or expired', async () => {
    space = (await make({ max_fragments: 1 })).id;
    const { id } = await write('the only one here');
    assert.equal((await send('two')).status, 409);
    assert.equal(
      (await write('the only one here', { fragment_id: id, expires_at: '2020-01-01T00:00:00Z' })).version,
      2,
    );
    assert.equal((await send('one more', { expires_at: '2020-01-01T00:00:00Z' })).status, 201);
    assert.deepEqual(await search('only one here', '&min_relevance=0'), []);
    assert.equal((await api.call('DELETE', `/v1/memory/fragments/${id}`)).status, 204);
    assert.equal((await api.call('GET', `/v1/memory/fragments/${id}`)).status, 404);
    assert.equal((await send('two')).status, 201);
  });

  it('are searched as far as what is found fits on a page, the best first', async () => {
    const padding = ' and so on'.repeat(25_000);
    for (let n = 0; n < 18; n++) await write(`Falcons nest here${padding}.`);
    const best = await write('Falcons nest here.');
    const found = await search('falcons nest', '&limit=200&min_relevance=0');
    assert.ok(found.length > 10 && found.length < 18, `${found.length} fragments`);
    assert.ok(JSON.stringify(found).length < LIMITS.eventsPageBytes);
    assert.equal(found[0].id, best.id);
    const newest = await api.call('GET', `/v1/memory/search?space_id=${space}&limit=200`);
    assert.ok(newest.text.length < LIMITS.eventsPageBytes);
    assert.deepEqual([newest.json.fragments[0].id, newest.json.fragments.length > 10], [best.id, true]);
  });

  it('are searched together where none is named, as far as the agent is let in', async () => {
    // The text search reads 12345e6b as a number and a letter, which another fragment may have.
    const word = `w${randomUUID().slice(0, 8)}`;
    const closed = await make({ allowed_agents: ['ada'] });
    await write(`The ${word} of the open space.`);
    await write(`The ${word} of the closed space.`, { space_id: closed.id });
    const all = async (agent?: string) => {
      const who = agent === undefined ? '' : `&agent_id=${agent}`;
      const { json } = await api.call('GET', `/v1/memory/search?query=${word}&min_relevance=0${who}`);
      return json.fragments.length;
    };
    assert.deepEqual([await all(), await all('ada'), await all('eve')], [2, 2, 1]);
    const { key } = await api.newTenant();
    const theirs = await api.call('GET', `/v1/memory/search?query=${word}&min_relevance=0`, { key });
    assert.deepEqual(theirs.json.fragments, []);
  });

  it('belong to a team from its beginning, and let its members in alone', async () => {
    const agent = async (name: string) => (await api.call('POST', '/v1/agents', { body: { name } })).json.agent_id;
    const [member, stranger] = [await agent(`member ${randomUUID()}`), await agent(`stranger ${randomUUID()}`)];
    const body = { name: `team ${randomUUID()}`, members: [{ agent_id: member, role: 'scout' }] };
    const { json: team } = await api.call('POST', '/v1/teams', { body });
    const { json } = await api.call('GET', '/v1/memory/spaces');
    const own = json.spaces.find(({ team_id: of }: { team_id: string | null }) => of === team.id);
    assert.ok(own, 'the team has a space');
    assert.equal((await send('What we found.', { space_id: own.id, agent_id: member })).status, 201);
    assert.equal((await send('What I found.', { space_id: own.id, agent_id: stranger })).status, 403);
    const seen = async (who: string) =>
      (await api.call('GET', `/v1/memory/search?query=found&min_relevance=0&agent_id=${who}`)).json.fragments.length;
    assert.deepEqual([await seen(member), await seen(stranger)], [1, 0]);
    assert.equal((await api.call('DELETE', `/v1/teams/${team.id}`)).status, 204);
    assert.deepEqual([await seen(member), await seen(stranger)], [0, 0], 'a team that is gone has no members');
  });

  it('keep what is written for as long as their policy says, and forget it then', async () => {
    const { id: month, retention_policy: policy } = await make({ retention_policy: '30 days' });
    assert.equal(policy, '30 days');
    const kept = await write('Kept for a month.', { space_id: month });
    const days = (Date.parse(kept.expires_at) - Date.now()) / 86_400_000;
    assert.ok(days > 29.9 && days <= 30, kept.expires_at);
    assert.equal((await write('Kept.', { retention_policy: 'standard' })).expires_at, null);
    const late = await write('The heliotrope of yesterday.', { expires_at: '2020-01-01T00:00:00Z' });
    await maintain(api.context, 'consolidate-memory');
    assert.equal((await api.call('GET', `/v1/memory/fragments/${late.id}`)).status, 404);
    assert.equal((await api.call('GET', `/v1/memory/fragments/${kept.id}`)).status, 200);
  });

  it('refuse what is no space and no write', async () => {
    assert.equal((await api.call('POST', '/v1/memory/spaces', { body: { scope: 'all' } })).status, 400);
    assert.equal((await send('x', { space_id: randomUUID() })).status, 404);
    assert.equal((await send('x', { fragment_id: randomUUID() })).status, 404);
    assert.equal((await send('x', { colour: 'red' })).status, 400);
    assert.equal((await api.call('GET', '/v1/memory/search?space_id=x')).status, 400);
  });

  it('lose no update of many writers at once', async () => {
    const writers = sized({ usual: 40, nightly: 1000 });
    const { id } = await write({ start: true });
    await Promise.all(
      Array.from({ length: writers }, async (_, n) =>
        write({ start: true, [`writer_${n}`]: n }, { fragment_id: id, base_version: 1 }),
      ),
    );
    const { content, version } = await get(id);
    assert.equal(version, writers + 1);
    assert.equal(Object.keys(content.data).length, writers + 1);
  });
});
