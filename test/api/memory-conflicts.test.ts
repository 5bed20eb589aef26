import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { CONSOLIDATION } from '../../jobs/consolidation.ts';
import { DEFAULT_TENANT_ID } from '../../modules/tenants/bootstrap.ts';
import { DOMAIN_MODE } from '../support/modes.ts';
import { waitUntil } from '../support/wait-until.ts';
import { maintain } from '../../modules/platform/maintain.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { expireApprovals, memoryConflicts } from '../support/queries/approvals.ts';
import { noticesTold } from '../support/queries/webhooks.ts';

describe('A contradiction in memory', () => {
  let api: TestApi;
  let agent: string;
  let space: string;

  before(async () => {
    api = await startTestApi(DOMAIN_MODE, { env: { DROVER_EMBEDDING_MODEL: 'offline' } });
  });
  after(() => api.close());
  beforeEach(async () => {
    const memory_config = { long_term: { enabled: true } };
    agent = (await post('/v1/agents', { name: `a ${randomUUID()}`, memory_config })).agent_id;
    space = (await post('/v1/memory/spaces', { name: 'facts', conflict_check: 'rules' })).id;
  });

  const post = async (path: string, body: unknown) => {
    const { json, status, text } = await api.call('POST', path, { body });
    assert.ok(status < 300, text);
    return json;
  };
  const write = (content: string, more: object = {}) => post('/v1/memory/write', { space_id: space, content, ...more });
  const add = (content: string, more: object = {}) =>
    post(`/v1/agents/${agent}/memory`, { content, memory_type: 'SEMANTIC', ...more });
  const read = async (path: string) => (await api.call('GET', path)).json;
  interface Pending {
    id: string;
    kind: string;
    fragment_id: string | null;
    memory_id: string | null;
    [field: string]: unknown;
    arguments: Record<string, { data: string } | string>;
  }
  const pending = async (): Promise<Pending[]> =>
    (await read('/v1/approvals?status=pending')).approvals.filter(({ kind }: { kind: string }) => kind === 'conflict');
  const decide = (id: string, body: object) => api.call('POST', `/v1/approvals/${id}`, { body });
  /** A fragment with both sides, and the approval that asks about it. */
  const disagree = async () => {
    space = (await post('/v1/memory/spaces', { name: 'of one fact' })).id;
    const { id } = await write('The launch is in May.');
    await write('The launch is in June.', { fragment_id: id, conflict_type: 'semantic_conflict', agent_id: 'bob' });
    const approval = (await pending()).find(({ fragment_id: about }) => about === id);
    assert.ok(approval);
    return { id, approval };
  };

  it('is shown without its texts to a key that may read runs and no memory', async () => {
    const { approval } = await disagree();
    const { key } = await post('/v1/api-keys', { name: 'reader', scopes: ['runs:read'] });
    const { json, text } = await api.call('GET', `/v1/approvals/${approval.id}`, { key });
    assert.deepEqual([json.kind, json.arguments], ['conflict', {}], text);
    const list = await api.call('GET', '/v1/approvals?status=pending', { key });
    assert.doesNotMatch(list.text, /launch is in/);
  });

  it('is none where one side holds no more, or held before the other did', async () => {
    const year = (number: number) => `${number}-01-01T00:00:00Z`;
    const before = (await pending()).length;
    await add('The launch is in March.', { valid_to: year(2024) });
    await add('The launch is in July.', { expires_at: year(2024) });
    await add('The launch is in May.', { valid_from: year(2024) });
    await add('The launch is in April.', { valid_from: year(2020), valid_to: year(2023) });
    assert.equal((await pending()).length, before);
    const last = await add('The launch is in June.');
    const [asked, ...others] = (await pending()).filter(({ memory_id: about }) => about === last.id);
    assert.deepEqual([asked?.arguments['version_a'], others], ['The launch is in May.', []]);
    await post(`/v1/agents/${agent}/memory/forget`, { query: 'launch' });
  });

  it('opens an approval that belongs to no run, with both sides, and webhooks are told', async () => {
    await post('/v1/webhooks', { url: 'https://example.com/hook', events: ['memory.conflicted', 'approval'] });
    const { id, approval } = await disagree();
    assert.deepEqual(
      [
        approval.kind,
        approval['run_id'],
        approval['turn_id'],
        approval['status'],
        approval.fragment_id,
        approval['approval_id'],
      ],
      ['conflict', null, null, 'pending', id, approval.id],
    );
    assert.deepEqual(
      [approval.arguments['version_a'], approval.arguments['version_b'], approval.arguments['fragment_id']],
      [{ type: 'text', data: 'The launch is in May.' }, { type: 'text', data: 'The launch is in June.' }, id],
    );
    assert.deepEqual((await read(`/v1/approvals/${approval.id}`)).id, approval.id);
    const told = await noticesTold(api.context.db);
    assert.deepEqual(
      told.map(({ type }) => type),
      ['approval.requested', 'memory.conflicted'],
    );
    assert.ok(
      told.every(({ notice }) => !JSON.stringify(notice).includes('launch')),
      'nobody is told what was written',
    );
  });

  it('is decided once by the same decision that comes several times at once, each of which is 200', async () => {
    const { id, approval } = await disagree();
    await add('The gate has 3 bars.');
    const entry = await add('The gate has 4 bars.');
    const about = (await pending()).find(({ memory_id: each }) => each === entry.id);
    for (const each of [approval.id, about?.id ?? '']) {
      const answers = await Promise.all([1, 2, 3, 4].map(() => decide(each, { decision: 'approve' })));
      assert.ok(answers.every(({ status, json }) => status === 200 && json.status === 'approved'));
    }
    assert.equal((await read(`/v1/memory/fragments/${id}`)).version, 3);
    await post(`/v1/agents/${agent}/memory/forget`, { query: 'gate' });
  });

  it('is decided over HTTP: what was written, what was there, or another text', async () => {
    for (const [body, said] of [
      [{ decision: 'approve' }, 'The launch is in June.'],
      [{ decision: 'deny', reason: 'May was agreed.' }, 'The launch is in May.'],
      [{ decision: 'edit', arguments: { content: 'The launch is in July.' } }, 'The launch is in July.'],
    ] as const) {
      const { id, approval } = await disagree();
      const decided = await decide(approval.id, body);
      assert.equal(decided.status, 200, decided.text);
      assert.equal(decided.json.status, body.decision === 'deny' ? 'denied' : 'approved');
      const { content, requires_resolution: open, version } = await read(`/v1/memory/fragments/${id}`);
      assert.deepEqual([content.data, open, version], [said, false, 3]);
      assert.equal((await decide(approval.id, body)).status, 200, 'the same again changes nothing');
      assert.equal(
        (await decide(approval.id, { decision: body.decision === 'deny' ? 'approve' : 'deny' })).status,
        409,
      );
      assert.equal((await read(`/v1/memory/fragments/${id}`)).version, 3);
    }
  });

  it('has the vector of the text asked for that is decided on', async () => {
    const { approval } = await disagree();
    const queue = api.context.queues.queue(CONSOLIDATION.name);
    const job = CONSOLIDATION.id({ tenantId: DEFAULT_TENANT_ID, spaceId: space, work: 'embed_fragments' });
    const isAsked = async () => (await queue.getJob(job)) !== undefined;
    await waitUntil('that of the writes is', isAsked);
    await queue.remove(job);
    assert.equal(await isAsked(), false);
    await decide(approval.id, { decision: 'approve' });
    await waitUntil('that of the decision is', isAsked);
  });

  it('is found by a correction, too, and not by one that is withdrawn at once', async () => {
    const path = (id: string) => `/v1/agents/${agent}/memory/${id}`;
    const { id: first } = await add('The gate opens at 7.');
    const { id: other } = await add('The door is green.');
    const body = { content: 'The gate opens at 9.' };
    const withdrawn = await api.call('PATCH', path(other), { body: { ...body, status: 'archived' } });
    assert.deepEqual([withdrawn.status, (await read(path(first))).status], [200, 'active']);
    const { id: third } = await add('The roof is red.');
    const { json, status } = await api.call('PATCH', path(third), { body });
    assert.deepEqual([status, json.status, (await read(path(first))).status], [200, 'disputed', 'disputed']);
    const asked = (await pending()).find(({ memory_id: about }) => about === json.id);
    assert.equal(asked?.arguments['conflicts_with'], first);
    await post(`/v1/agents/${agent}/memory/forget`, { query: 'gate' });
  });

  it('refuses decisions that do not fit, and those of others', async () => {
    const { approval } = await disagree();
    for (const body of [
      { decision: 'happened' },
      { decision: 'edit', arguments: { text: 'x' } },
      { decision: 'edit', arguments: { content: 7 } },
      { decision: 'edit', arguments: { content: 'x'.repeat(300_000) } },
    ])
      assert.equal((await decide(approval.id, body)).status, 422, JSON.stringify(body));
    const other = await api.newTenant();
    assert.equal((await api.call('GET', `/v1/approvals/${approval.id}`, { key: other.key })).status, 404);
    const theirs = { key: other.key, body: { decision: 'approve' } };
    assert.equal((await api.call('POST', `/v1/approvals/${approval.id}`, theirs)).status, 404);
    assert.equal((await read(`/v1/approvals/${approval.id}`)).status, 'pending');
  });

  it('is over when somebody resolves or overwrites the fragment, expires, or goes with it', async () => {
    const status = async (id: string) => (await read(`/v1/approvals/${id}`)).status;
    const resolved = await disagree();
    await post(`/v1/memory/fragments/${resolved.id}/resolve`, { content: 'In June.' });
    assert.equal(await status(resolved.approval.id), 'settled');
    const replaced = await disagree();
    await write('The launch is in August.', { fragment_id: replaced.id });
    assert.equal(await status(replaced.approval.id), 'settled');
    const late = await disagree();
    await expireApprovals(api.context.db);
    assert.equal((await decide(late.approval.id, { decision: 'approve' })).status, 409);
    assert.equal(await status(late.approval.id), 'expired');
    const expired = await disagree();
    await expireApprovals(api.context.db);
    await maintain(api.context, 'expire-approvals');
    assert.equal(await status(expired.approval.id), 'expired');
    assert.equal((await read(`/v1/memory/fragments/${expired.id}`)).requires_resolution, true, 'both sides stay');
    const gone = await disagree();
    await api.call('DELETE', `/v1/memory/fragments/${gone.id}`);
    assert.equal((await api.call('GET', `/v1/approvals/${gone.approval.id}`)).status, 404);
  });

  it('is looked for in a space that asks for it, among what its writer may see', async () => {
    const first = await write('The budget is 30 thousand.', { agent_id: 'ada' });
    const second = await write('The budget is 45 thousand.', { agent_id: 'bob' });
    assert.deepEqual([second.id, second.requires_resolution, second.conflicts], [first.id, true, ['content']]);
    assert.deepEqual(second.content.data.version_b, 'The budget is 45 thousand.');
    const own = await write('The gate code is 1111.', { agent_id: 'ada', visibility: 'private' });
    const others = await write('The gate code is 2222.', { agent_id: 'bob' });
    assert.notEqual(own.id, others.id);
    space = (await post('/v1/memory/spaces', { name: 'unasked' })).id;
    await write('The budget is 30 thousand.');
    assert.equal((await write('The budget is 45 thousand.')).requires_resolution, false);
  });

  it('is left alone in a space where others would see either side then, or one would go before its time', async () => {
    const seen = async (agentId: string): Promise<string[]> => {
      const { fragments } = await read(`/v1/memory/search?space_id=${space}&agent_id=${agentId}`);
      return fragments.map((fragment: { content: { data: string } }) => fragment.content.data).toSorted();
    };
    const [first, second] = ['The budget is 30 thousand.', 'The budget is 45 thousand.'];
    const hour = new Date(Date.now() + 3_600_000).toISOString();
    const kinds: [object, object, Record<string, string[]>][] = [
      [{}, { visibility: 'private' }, { ada: [first], bob: [first, second], eve: [first] }],
      [{}, { denied_agents: ['ada'] }, { ada: [first], bob: [first, second], eve: [first, second] }],
      [{ allowed_agents: ['ada', 'bob'] }, {}, { ada: [first, second], bob: [first, second], eve: [second] }],
      [{}, { expires_at: hour }, { eve: [first, second] }],
      [{ expires_at: hour }, {}, { eve: [first, second] }],
      [{ retention_policy: '2 hours' }, { retention_policy: '1 hour' }, { eve: [first, second] }],
      [{ retention_policy: '1 hour' }, { retention_policy: '2 hours' }, { eve: [first, second] }],
    ];
    for (const [older, newer, found] of kinds) {
      space = (await post('/v1/memory/spaces', { name: 'facts', conflict_check: 'rules' })).id;
      await write(first, { agent_id: 'ada', ...older });
      const { requires_resolution: open } = await write(second, { agent_id: 'bob', ...newer });
      assert.equal(open, false, JSON.stringify(newer));
      for (const [who, texts] of Object.entries(found))
        assert.deepEqual(await seen(who), texts, `${who} ${JSON.stringify([older, newer])}`);
    }
    const policy = { retention_policy: '1 hour' };
    space = (await post('/v1/memory/spaces', { name: 'facts', conflict_check: 'rules', ...policy })).id;
    const { id } = await write(first, { agent_id: 'ada', denied_agents: ['eve', 'dan'] });
    const joined = await write(second, { agent_id: 'bob', denied_agents: ['dan', 'eve'], expected_version: 0 });
    assert.deepEqual([joined.id, joined.requires_resolution, await seen('eve')], [id, true, []]);
  });

  it('between entries marks both, and a person says which is so', async () => {
    const state = async (id: string) => (await read(`/v1/agents/${agent}/memory/${id}`)).status;
    for (const [decision, states] of [
      ['approve', ['superseded', 'active']],
      ['deny', ['active', 'superseded']],
      ['edit', ['superseded', 'superseded']],
    ] as const) {
      const older = await add(`The office of ${decision} is in Oslo.`);
      const newer = await add(`The office of ${decision} is in Bergen.`);
      assert.deepEqual([await state(older.id), await state(newer.id)], ['disputed', 'disputed']);
      const approval = (await pending()).find(({ memory_id: about }) => about === newer.id);
      const args = decision === 'edit' ? { arguments: { content: 'The office is in Rome.' } } : {};
      const decided = await decide(approval?.id ?? '', { decision, ...args });
      assert.equal(decided.status, 200, decided.text);
      assert.deepEqual([await state(older.id), await state(newer.id)], states);
    }
    await post(`/v1/agents/${agent}/memory/forget`, { query: 'office' });
    assert.deepEqual(await memoryConflicts(api.context.db), []);
  });
});
