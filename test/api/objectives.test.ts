import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { Answer, TestApi } from '../support/api.ts';
import { tablesWith } from '../support/find-text.ts';
import { renameObjective } from '../support/queries/runs.ts';
import { startTestService } from '../support/service.ts';
import { waitUntil } from '../support/wait-until.ts';

describe('POST /v1/objectives', () => {
  let api: TestApi;
  let agent: string;
  let key: string;
  let number = 0;

  before(async () => {
    api = await startTestService();
    ({ key } = await api.newTenant());
    const { json } = await api.call('POST', '/v1/agents', { key, body: { name: 'worker', tools: ['calculator'] } });
    agent = json.id;
  });
  after(() => api.close());

  const envelope = (more: Record<string, unknown> = {}) => ({
    schema_version: 'v1',
    request_id: `request-${(number += 1)}`,
    agent_id: agent,
    objective_prompt: 'What is 6*7?',
    ...more,
  });
  const post = (body: unknown, headers: Record<string, string> = {}) =>
    api.call('POST', '/v1/objectives', { key, body, headers });

  it('starts a run that reaches the objective', async () => {
    const body = envelope();
    const { status, json, headers } = await post(body);
    assert.deepEqual([status, json.request_id, Object.keys(json).length], [202, body.request_id, 2]);
    assert.equal(headers.get('location'), `/v1/runs/${json.run_id}`);
    await waitUntil('the run ends', async () => {
      const { json: run } = await api.call('GET', `/v1/runs/${json.run_id}`, { key });
      return run.status === 'completed';
    });
  });

  it('starts one run however often it is sent, at once or later, with or without an Idempotency-Key', async () => {
    const body = envelope();
    const answers = await Promise.all([post(body), post(body), post(body), post(body, { 'idempotency-key': 'k1' })]);
    const [first] = answers;
    for (const { status, json } of [...answers, await post(body)]) {
      assert.deepEqual([status, json], [202, first.json]);
    }
    assert.equal(answers.filter(({ headers }) => headers.get('idempotent-replayed') === null).length, 1);
    const other = await post({ ...body, objective_prompt: 'What is 7*7?' });
    assert.deepEqual([other.status, other.json.errors[0].path], [422, 'body.request_id']);
    const { json: runs } = await api.call('GET', `/v1/runs?agent=${agent}&limit=200`, { key });
    assert.equal(runs.runs.filter(({ id }: { id: string }) => id === first.json.run_id).length, 1);
  });

  it('begins the thread of an external id that no thread has, and goes on with it afterwards', async () => {
    const thread_id = 'ext:errand 1';
    const first = envelope({ thread_id });
    const threadOf = async ({ status, json, text }: Answer) => {
      assert.equal(status, 202, text);
      let thread = '';
      await waitUntil('the run ends', async () => {
        const { json: run } = await api.call('GET', `/v1/runs/${json.run_id}`, { key });
        thread = run.thread_id;
        return run.status === 'completed';
      });
      return thread;
    };
    const begun = await post(first);
    const thread = await threadOf(begun);
    const { json: shown } = await api.call('GET', `/v1/threads/${encodeURIComponent(thread_id)}`, { key });
    assert.equal(shown.id, thread);
    assert.deepEqual((await post(first)).json, begun.json, 'repeated');
    assert.equal(await threadOf(await post(envelope({ thread_id }))), thread);
    const { json: wrong } = await post(envelope({ thread_id: 'errand' }));
    assert.equal(wrong.errors[0].path, 'body.thread_id');
  });

  it('keeps the request ids of tenants apart', async () => {
    const body = envelope();
    const { json } = await post(body);
    const other = await api.newTenant();
    const made = await api.call('POST', '/v1/agents', { key: other.key, body: { name: 'theirs' } });
    const theirs = await api.call('POST', '/v1/objectives', {
      key: other.key,
      body: { ...body, agent_id: made.json.id },
    });
    assert.equal(theirs.status, 202);
    assert.notEqual(theirs.json.run_id, json.run_id);
  });

  it('leaves a request id free where no run came of it', async () => {
    const body = envelope({ agent_id: '00000000-0000-7000-8000-00000000dead' });
    assert.equal((await post(body)).status, 404);
    assert.equal((await post({ ...body, agent_id: agent })).status, 202);
  });

  it('keeps no request_id of a run that is erased, and starts no other run for it', async () => {
    const body = envelope({ request_id: `ada-${randomUUID()}` });
    const named = { 'idempotency-key': randomUUID() };
    const first = await post(body, named);
    await waitUntil('the run ends', async () => {
      const { json: run } = await api.call('GET', `/v1/runs/${first.json.run_id}`, { key });
      return run.status === 'completed';
    });
    const erased = await api.call('DELETE', `/v1/runs/${first.json.run_id}`, { key });
    assert.equal(erased.status, 202, erased.text);
    assert.deepEqual(await tablesWith(api.context.db, body.request_id), []);
    for (const headers of [named, {}, { 'idempotency-key': randomUUID() }]) {
      const { status, json } = await post(body, headers);
      assert.deepEqual([status, json], [202, first.json]);
    }
    assert.equal((await post({ ...body, objective_prompt: 'What is 7*7?' })).status, 422);
    assert.deepEqual(await tablesWith(api.context.db, body.request_id), []);
  });

  it('erases one that was sent again, to a process of the build before, after its first run was erased', async () => {
    const body = envelope({ request_id: `ada-${randomUUID()}` });
    const erase = async ({ json }: Answer) => {
      const path = `/v1/runs/${json.run_id}`;
      assert.equal((await api.call('DELETE', path, { key })).status, 202);
      assert.ok((await api.call('GET', path, { key })).json.erased_at);
    };
    const first = await post(body);
    await erase(first);
    const other = await post(envelope());
    await renameObjective(api, other.json.run_id, body.request_id);
    await erase(other);
    assert.deepEqual(await tablesWith(api.context.db, body.request_id), []);
    assert.deepEqual((await post(body)).json, first.json);
  });

  it('tells the agent context and constraints, and is bound by those that it knows', async () => {
    const constraints = { max_turns: 3, autonomy_level: 1, tone: 'dry' };
    const { json } = await post(envelope({ context: { ledger: 'May' }, constraints, budget: { max_steps: 9 } }));
    const { json: log } = await api.call('GET', `/v1/runs/${json.run_id}/events?types=run.created,turn.started`, {
      key,
    });
    const [created, turn] = log.events;
    assert.deepEqual(created.payload.config, { max_turns: 3, autonomy_level: 1, budget: { max_steps: 9 } });
    assert.equal(
      turn.payload.input.message,
      'What is 6*7?\n\nContext:\n{"ledger":"May"}\n\nConstraints:\n{"autonomy_level":1,"max_turns":3,"tone":"dry"}',
    );
  });

  it('has a team do it, once and within its budget', async () => {
    const members = [{ agent_id: agent, role: 'worker', priority: 0 }];
    const body = { name: 'team', orchestration_pattern: 'parallel', members };
    const { id: team_id } = (await api.call('POST', '/v1/teams', { key, body })).json;
    const ended = async (more: Record<string, unknown>) => {
      const asked = envelope({ agent_id: undefined, team_id, context: 'May', ...more });
      const { status, json } = await post(asked);
      assert.equal(status, 202);
      assert.deepEqual((await post(asked)).json, json);
      const read = async () => (await api.call('GET', `/v1/workflows/${json.run_id}`, { key })).json;
      await waitUntil('the workflow ends', async () => ['completed', 'failed'].includes((await read()).status));
      return read();
    };
    const done = await ended({ budget: { max_tokens: 100_000 } });
    assert.deepEqual([done.status, done.team_id], ['completed', team_id]);
    assert.match(done.result, /42/);
    assert.match(done.input.user_query, /Context:\nMay/);
    const poor = await ended({ budget: { max_tokens: 1 } });
    assert.deepEqual([poor.status, poor.tasks[0].error?.code], ['failed', 'budget']);
    const bound = await post(envelope({ agent_id: undefined, team_id, constraints: { max_turns: 3 } }));
    assert.deepEqual([bound.status, bound.json.errors[0].path], [400, 'body.constraints']);
    const nowhere = '00000000-0000-7000-8000-00000000dead';
    assert.equal((await post(envelope({ agent_id: undefined, team_id: nowhere }))).status, 404);
  });

  it('refuses what it cannot do', async () => {
    const team = '00000000-0000-7000-8000-00000000dead';
    const cases: [Record<string, unknown>, number, string?][] = [
      [{ schema_version: 'v2' }, 422, 'body.schema_version'],
      [{ team_id: team }, 400, 'body.team_id'],
      [{ agent_id: undefined }, 400, 'body.agent_id'],
      [{ objective_prompt: '' }, 400, 'body.objective_prompt'],
      [{ wish: 'x' }, 400, 'body.wish'],
      [{ constraints: { max_turns: 0 } }, 400],
      [{ workspace_id: team }, 404],
    ];
    for (const [more, status, path] of cases) {
      const answer = await post(envelope(more));
      assert.equal(answer.status, status, JSON.stringify(more) + answer.text);
      if (path !== undefined) assert.equal(answer.json.errors[0].path, path);
    }
    const reader = await api.call('POST', '/v1/api-keys', { key, body: { name: 'r', scopes: ['runs:read'] } });
    assert.equal((await api.call('POST', '/v1/objectives', { key: reader.json.key, body: envelope() })).status, 403);
  });
});
