import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { startTestApi, type TestApi } from '../support/api.ts';

function countOf(answers: readonly { status: number }[]): Record<number, number> {
  const counts: Record<number, number> = {};
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}

describe("a client's own names for agents", () => {
  let api: TestApi;
  before(async () => {
    api = await startTestApi();
  });
  after(() => api.close());

  const newName = (): string => `agent ${randomUUID()}`;
  const create = async (fields: Record<string, unknown> = {}) => {
    const answer = await api.call('POST', '/v1/agents', { body: { name: newName(), ...fields } });
    assert.equal(answer.status, 201, answer.text);
    return answer.json;
  };

  it('stand for their ids in paths, queries and bodies, and are unique in a workspace', async () => {
    const external = `crm/Ada 7:${randomUUID()}`;
    const { id } = await create({ external_id: external });
    const path = `/v1/agents/${encodeURIComponent(`ext:${external}`)}`;
    const { json } = await api.call('GET', path);
    assert.deepEqual([json.id, json.external_id], [id, external]);
    assert.equal((await api.call('POST', `${path}/runs`, { body: {} })).json.status, 'created');
    const of = encodeURIComponent(`ext:${external}`);
    assert.equal((await api.call('GET', `/v1/runs?agent_id=${of}`)).json.runs.length, 1);
    assert.equal((await api.call('GET', `/v1/threads?agent_id=${of}`)).json.threads.length, 1);
    const supervised = { orchestration_pattern: 'hierarchical', supervisor_agent_id: `ext:${external}` };
    const members = [{ agent_id: `ext:${external}`, role: 'worker' }];
    const team = await api.call('POST', '/v1/teams', { body: { name: 'named', ...supervised, members } });
    assert.deepEqual([team.json.supervisor_agent_id, team.json.members?.[0].agent_id], [id, id], team.text);
    const space = await api.call('POST', '/v1/memory/spaces', { body: { denied_agents: [`ext:${external}`] } });
    assert.deepEqual(space.json.denied_agents, [id]);
    const subtasks = [{ id: 'a', description: 'd', agent: `ext:${external}` }];
    const work = { name: 'w', agent_id: `ext:${external}`, input: { user_query: 'q' }, definition: { subtasks } };
    const workflow = await api.call('POST', '/v1/workflows', { body: work });
    assert.deepEqual([workflow.status, workflow.json.agent_id], [202, id], workflow.text);
    const filter = { agent_id: `ext:${external}` };
    assert.equal((await api.call('POST', '/v1/runs/cancel', { body: { filter } })).json.cancelled, 2);
    const again = await api.call('POST', '/v1/agents', { body: { name: newName(), external_id: external } });
    assert.deepEqual([again.status, again.json.agent_id], [409, id]);
    const elsewhere = await api.newTenant();
    assert.equal((await api.call('GET', path, { key: elsewhere.key })).status, 404);
  });

  it('leave times in the same request as they are', async () => {
    const external = randomUUID();
    await create({ external_id: external });
    const body = { query: 'anything', at: '2026-01-01T00:00:00Z' };
    const { status, text } = await api.call('POST', `/v1/agents/ext:${external}/memory/query`, { body });
    assert.equal(status, 200, text);
    const until = encodeURIComponent('2020-01-01T00:00:00Z');
    const listed = await api.call('GET', `/v1/agents/ext:${external}/memory?created_before=${until}`);
    assert.equal(listed.status, 200, listed.text);
  });

  it('stand for a thread in what is remembered, and for a session; for an agent in a trial of policies', async () => {
    const agent = randomUUID();
    await create({ external_id: agent });
    const chat = (session_id?: string) =>
      api.call('POST', '/agent/chat', { body: { message: 'hi', user_id: 'u', agent_id: `ext:${agent}`, session_id } });
    const { session_id: id } = (await chat()).json;
    const external = randomUUID();
    await api.call('PATCH', `/v1/threads/${id}`, { body: { external_id: external } });
    const name = `ext:${external}`;
    assert.equal((await api.call('GET', `/agent/session/${name}`)).json.session_id, id);
    assert.equal((await chat(name)).json.session_id, id);
    const stopped = await api.call('POST', '/agent/interrupt', { body: { session_id: name } });
    assert.equal(stopped.status, 200, stopped.text);
    const plan = { session_id: name, plan_id: randomUUID() };
    assert.equal((await api.call('POST', '/agent/execute', { body: plan })).status, 409);

    const memory = `/v1/agents/ext:${agent}/memory`;
    const entry = { content: 'Elephants are grey.', memory_type: 'SEMANTIC', thread_id: name };
    const kept = await api.call('POST', memory, { body: entry });
    assert.deepEqual([kept.status, kept.json.thread_id], [201, id], kept.text);
    for (const thread of [id, name]) {
      const { json } = await api.call('GET', `${memory}?thread_id=${thread}`);
      assert.equal(json.entries.length, 1);
      const found = await api.call('POST', `${memory}/query`, { body: { query: 'elephants', thread_id: thread } });
      assert.equal(found.json.entries.length, 1, found.text);
    }
    const unknown = await api.call('POST', memory, { body: { ...entry, thread_id: `ext:${randomUUID()}` } });
    assert.equal(unknown.status, 404);

    const trial = { tool: 'calculator', arguments: {}, agent_id: `ext:${agent}` };
    const tried = await api.call('POST', '/v1/policies/evaluate', { body: trial });
    assert.equal(tried.status, 200, tried.text);
  });

  it('are what is asked for where a path has a name in the place of an id', async () => {
    const detail = async (path: string, body = {}) => {
      const { status, json } = await api.call('POST', path, { body });
      assert.equal(status, 404);
      return json.detail;
    };
    const form = 'must be a UUID, or ext: and an external id.';
    assert.equal(
      await detail('/v1/agents/support/runs'),
      `There is no /v1/agents/support/runs: of /v1/agents/{id}/runs {id} ${form}`,
    );
    assert.equal(await detail('/ag-ui/support'), `There is no /ag-ui/support: of /ag-ui/{agent} {agent} ${form}`);
    assert.match(await detail('/v1/tools/calculator/execute'), / \{id\} must be a UUID\.$/);
  });

  it('name nothing where nobody has given them', async () => {
    const { status, json } = await api.call('GET', '/v1/agents/ext:nobody');
    assert.deepEqual([status, json.detail], [404, 'The agent "ext:nobody" does not exist.']);
    const body = { message: 'hi', user_id: 'u', agent_id: 'ext:nobody' };
    assert.equal((await api.call('POST', '/agent/chat', { body })).status, 404);
    for (const wrong of ['ext:', `ext:${'x'.repeat(201)}`]) {
      assert.equal((await api.call('GET', `/v1/agents/${wrong}`)).status, 404);
      const answer = await api.call('POST', '/agent/chat', { body: { ...body, agent_id: wrong } });
      assert.deepEqual([answer.status, answer.json.errors?.[0].path], [400, 'body.agent_id']);
    }
  });

  it('are given later and taken away without a new version', async () => {
    const { id } = await create();
    const [first, second] = [randomUUID(), randomUUID()];
    const patch = (external_id: unknown) => api.call('PATCH', `/v1/agents/${id}`, { body: { external_id } });
    assert.deepEqual(((json) => [json.external_id, json.version])((await patch(first)).json), [first, '1.0.0']);
    assert.equal((await patch(second)).json.external_id, second);
    assert.equal((await api.call('GET', `/v1/agents/ext:${first}`)).status, 404);
    const { id: other } = await create({ external_id: first });
    assert.deepEqual(((answer) => [answer.status, answer.json.agent_id])(await patch(first)), [409, other]);
    const both = { external_id: first, description: 'changed' };
    assert.equal((await api.call('PATCH', `/v1/agents/${id}`, { body: both })).status, 409);
    assert.equal((await api.call('GET', `/v1/agents/${id}`)).json.version, '1.0.0', 'what is refused changes nothing');
    assert.equal((await patch(null)).json.external_id, undefined);
    assert.equal((await api.call('GET', `/v1/agents/ext:${second}`)).status, 404);
  });

  it('are kept apart by case, under one Idempotency-Key too', async () => {
    const name = randomUUID().toUpperCase();
    const [large, small] = [await create({ external_id: `A${name}` }), await create({ external_id: `a${name}` })];
    const headers = { 'idempotency-key': randomUUID() };
    const runOf = async (named: string) => {
      const { json } = await api.call('POST', `/v1/agents/${named}/runs`, { headers, body: {} });
      return (await api.call('GET', `/v1/runs/${json.run_id}`)).json.agent_id;
    };
    assert.deepEqual([await runOf(`ext:A${name}`), await runOf(`ext:a${name}`)], [large.id, small.id]);
    const runs = async () => (await api.call('GET', `/v1/agents/${large.id}/runs`)).json.runs.length;
    assert.deepEqual([await runOf(large.id), await runs()], [large.id, 1], 'the same by its id');
  });

  describe('PUT', () => {
    const put = (external: string, body: unknown) => api.call('PUT', `/v1/agents/ext:${external}`, { body });

    it('creates an agent, changes nothing for the same content, and publishes what is other', async () => {
      const external = randomUUID();
      const body = { name: newName(), description: 'one', tools: ['calculator'] };
      const made = await put(external, body);
      assert.deepEqual([made.status, made.json.version], [201, '1.0.0'], made.text);
      const same = await put(external, body);
      assert.deepEqual([same.status, same.json.id, same.json.version], [200, made.json.id, '1.0.0']);
      const changed = await put(external, { name: body.name, description: 'two' });
      assert.deepEqual([changed.status, changed.json.version, changed.json.tools], [200, '1.1.0', undefined]);
      assert.equal(changed.json.external_id, external);
      assert.equal((await put(external, { ...body, version: '1.1.0' })).status, 422, 'a version that is taken');
      const back = await put(external, { ...body, version: '2.0.0' });
      assert.deepEqual([back.status, back.json.version], [200, '2.0.0']);
      assert.deepEqual((await put(external, { ...body, version: '2.0.0' })).json.version, '2.0.0');
    });

    it('makes one agent, however many ask at once', async () => {
      const external = randomUUID();
      const body = { name: newName() };
      const answers = await Promise.all(Array.from({ length: 6 }, () => put(external, body)));
      assert.deepEqual(countOf(answers), { 200: 5, 201: 1 });
      assert.equal(new Set(answers.map(({ json }) => json.id)).size, 1);
    });

    it('takes no id of Drover', async () => {
      const { id } = await create({ external_id: randomUUID() });
      assert.equal((await api.call('PUT', `/v1/agents/${id}`, { body: { name: newName() } })).status, 404);
    });

    it('registers an agent where the one of that name is deprecated, which gives it up', async () => {
      const external = randomUUID();
      const body = { name: newName() };
      const { id: first } = (await put(external, body)).json;
      await api.call('DELETE', `/v1/agents/${first}`);
      const answers = await Promise.all([put(external, body), put(external, body)]);
      assert.deepEqual(countOf(answers), { 200: 1, 201: 1 });
      const { json: second } = await api.call('GET', `/v1/agents/ext:${external}`);
      assert.notEqual(second.id, first);
      assert.equal((await api.call('GET', `/v1/agents/${first}`)).json.external_id, undefined);
      const { json: run } = await api.call('POST', `/v1/agents/ext:${external}/runs`, { body: {} });
      assert.equal((await api.call('GET', `/v1/runs/${run.run_id}`)).json.agent_id, second.id);
    });
  });

  it('are given to another agent once theirs is deprecated', async () => {
    const external = randomUUID();
    const { id } = await create({ external_id: external });
    await api.call('DELETE', `/v1/agents/${id}`);
    const next = await create({ external_id: external });
    await api.call('DELETE', `/v1/agents/${next.id}`);
    const { id: other } = await create();
    const renamed = await api.call('PATCH', `/v1/agents/${other}`, { body: { external_id: external } });
    assert.deepEqual([renamed.status, renamed.json.external_id], [200, external], renamed.text);
    assert.equal((await api.call('GET', `/v1/agents/ext:${external}`)).json.id, other);
  });

  it('are not given, without the right to approve, to one that guards calls less than the deprecated one did', async () => {
    const external = randomUUID();
    const guarded = await create({ external_id: external, autonomy_level: 0 });
    await api.call('DELETE', `/v1/agents/${guarded.id}`);
    const weak = { name: 'declares', scopes: ['agents:write'] };
    const { key } = (await api.call('POST', '/v1/api-keys', { body: weak })).json;
    const again = { name: newName() };
    const put = (body: object, as?: string) =>
      api.call('PUT', `/v1/agents/ext:${external}`, { body, ...(as !== undefined && { key: as }) });
    const refused = await put(again, key);
    assert.deepEqual([refused.status, refused.json.scope], [403, 'approvals:write'], refused.text);
    assert.equal((await put({ ...again, autonomy_level: 0 }, key)).status, 201);
  });

  it('publishes a tool under its name, which changes nothing for the same content', async () => {
    const name = `tool_${randomUUID().slice(0, 8)}`;
    const put = (body: unknown) => api.call('PUT', `/v1/tools/${name}`, { body });
    const body = { description: 'one', transport: { type: 'client' }, risk_level: 'WRITE_HIGH_RISK' };
    const made = await put(body);
    assert.deepEqual([made.status, made.json.name, made.json.version], [201, name, '1.0.0'], made.text);
    const same = await put({ name, ...body });
    const misnamed = await put({ name: 'other', ...body });
    assert.deepEqual([misnamed.status, misnamed.json.errors[0].path], [422, 'body.name']);
    assert.deepEqual([same.status, same.json.id, same.json.version], [200, made.json.id, '1.0.0']);
    const changed = await put({ description: 'two', transport: { type: 'client' } });
    const { json } = changed;
    assert.deepEqual([changed.status, json.version, json.risk_level], [200, '1.1.0', 'WRITE_LOW_RISK']);
    assert.equal((await api.call('PUT', '/v1/tools/calculator', { body })).status, 409);
    for (const path of ['/v1/tools/no%20name', `/v1/tools/${made.json.id}`]) {
      assert.equal((await api.call('PUT', path, { body })).status, 404);
    }
    const answers = await Promise.all(
      Array.from({ length: 5 }, () => api.call('PUT', `/v1/tools/${name}_2`, { body })),
    );
    assert.deepEqual(countOf(answers), { 200: 4, 201: 1 });
  });

  it("takes metadata of the client's own, by which lists are filtered", async () => {
    const mark = randomUUID();
    const { id } = await create({ metadata: { mark, 'a.b': 'c' } });
    await create({ metadata: { mark: 'other' } });
    const found = async (query: string) =>
      (await api.call('GET', `/v1/agents?${query}`)).json.agents.map((agent: { id: string }) => agent.id);
    assert.deepEqual(await found(`metadata.mark=${mark}`), [id]);
    assert.deepEqual(await found(`metadata.mark=${mark}&metadata.a.b=c`), [id]);
    assert.deepEqual(await found(`metadata.mark=${mark}&metadata.a.b=d`), []);
    const many = Object.fromEntries(Array.from({ length: 51 }, (_, key) => [`k${key}`, 'v']));
    for (const metadata of [many, { n: 1 }, { '': 'v' }]) {
      assert.equal((await api.call('POST', '/v1/agents', { body: { name: newName(), metadata } })).status, 400);
    }
    const { status, json } = await api.call('GET', '/v1/tools?metadata.a=b');
    assert.deepEqual([status, json.errors[0].path], [400, 'query.metadata']);
  });
});
