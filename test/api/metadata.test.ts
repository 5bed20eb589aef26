import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { startTestApi, type TestApi } from '../support/api.ts';

/** A body with this key is refused. */
const UNKEPT = ['metadata.__proto__=x', 'metadata[__proto__]=x'];

describe("metadata and names of the client's own", () => {
  let api: TestApi;
  let agent: string;
  before(async () => {
    api = await startTestApi();
    agent = (await api.call('POST', '/v1/agents', { body: { name: 'kept' } })).json.id;
  });
  after(() => api.close());

  const start = async (body: Record<string, unknown> = {}) => {
    const answer = await api.call('POST', `/v1/agents/${agent}/runs`, { body });
    assert.ok(answer.status === 201 || answer.status === 202, answer.text);
    return answer.json;
  };
  const idsOf = async (path: string, field: string) =>
    (await api.call('GET', path)).json[field].map(({ id }: { id: string }) => id);

  it('stands with runs, by which lists of them are filtered, and with their retries', async () => {
    const mark = randomUUID();
    const metadata = { mark, order: '7' };
    const { run_id: id } = await start({ metadata });
    await start({ metadata: { mark: 'another' } });
    await start();
    assert.deepEqual((await api.call('GET', `/v1/runs/${id}`)).json.metadata, metadata);
    assert.deepEqual(await idsOf(`/v1/runs?metadata.mark=${mark}`, 'runs'), [id]);
    assert.deepEqual(await idsOf(`/v1/agents/${agent}/runs?metadata.mark=${mark}&metadata.order=7`, 'runs'), [id]);
    assert.deepEqual(await idsOf(`/v1/runs?metadata.mark=${mark}&metadata.order=8`, 'runs'), []);
    const deep = (order: string) => `metadata[mark]=${mark}&${encodeURIComponent('metadata[order]')}=${order}`;
    for (const path of ['/v1/runs', `/v1/agents/${agent}/runs`]) {
      assert.deepEqual(await idsOf(`${path}?${deep('7')}`, 'runs'), [id], 'as generated clients say it');
      assert.deepEqual(await idsOf(`${path}?${deep('8')}`, 'runs'), []);
      assert.deepEqual(await idsOf(`${path}?metadata[mark]=${mark}&metadata.order=8`, 'runs'), [], 'both forms');
    }
    for (const query of ['metadata[mark]=x&metadata.mark=x', 'metadata[]=x', 'metadata[mark=x', 'metadata=x']) {
      assert.equal((await api.call('GET', `/v1/runs?${query}`)).status, 400, query);
    }
    await api.call('POST', `/v1/runs/${id}/cancel`, { body: {} });
    const retry = await api.call('POST', `/v1/runs/${id}/retry`, { body: {} });
    assert.equal(retry.status, 202, retry.text);
    assert.deepEqual((await api.call('GET', `/v1/runs/${retry.json.new_run_id}`)).json.metadata, metadata);
    const refused = await api.call('POST', `/v1/agents/${agent}/runs`, { body: { metadata: { n: 1 } } });
    assert.deepEqual([refused.status, refused.json.errors[0].path], [400, 'body.metadata.n']);
  });

  it('is not looked for by a key that it cannot have, in any list', async () => {
    for (const list of ['runs', 'agents', 'threads', `agents/${agent}/runs`]) {
      for (const query of UNKEPT) {
        const { status, json, text } = await api.call('GET', `/v1/${list}?${query}`);
        assert.equal(status, 400, text);
        assert.match(json.detail, /__proto__/);
      }
    }
  });

  it('stands with turns', async () => {
    const { run_id: id } = await start();
    const mark = randomUUID();
    const body = { input: { message: 'hi' }, metadata: { mark } };
    const headers = { prefer: 'respond-async' };
    const posted = await api.call('POST', `/v1/runs/${id}/turns`, { body, headers });
    assert.equal(posted.status, 202, posted.text);
    const { json } = await api.call('GET', `/v1/runs/${id}/turns?metadata.mark=${mark}`);
    assert.deepEqual(
      json.turns.map((turn: Record<string, unknown>) => [turn['id'], turn['metadata'], turn['input']]),
      [[posted.json.turn_id, { mark }, { message: 'hi' }]],
    );
    assert.deepEqual(await idsOf(`/v1/runs/${id}/turns?metadata.mark=x`, 'turns'), []);
    const results = { tool_results: [{ tool_use_id: 'a', content: 'b' }], metadata: { mark } };
    assert.equal((await api.call('POST', `/v1/runs/${id}/turns`, { body: results })).status, 400);
  });

  it('goes where the run is erased', async () => {
    const secret = randomUUID();
    const { run_id: id, thread_id: thread } = await start({ metadata: { secret }, input: { message: 'hi' } });
    const turned = await start({ config: { keep_open: true } });
    const body = { input: { message: 'hi' }, metadata: { secret } };
    await api.call('POST', `/v1/runs/${turned.run_id}/turns`, { body, headers: { prefer: 'respond-async' } });
    await api.call('PATCH', `/v1/threads/${thread}`, { body: { metadata: { secret }, external_id: secret } });
    for (const path of [`/v1/runs/${turned.run_id}`, `/v1/threads/${thread}`]) {
      assert.equal((await api.call('DELETE', path)).status, 202);
    }
    const looked = [`/v1/runs/${id}`, `/v1/runs/${turned.run_id}`, `/v1/threads/${thread}`];
    for (const path of [...looked, ...looked.slice(0, 2).flatMap((run) => [`${run}/events`, `${run}/turns`])]) {
      const { status, text } = await api.call('GET', path);
      assert.deepEqual([status, text.includes(secret)], [200, false], path);
    }
    assert.equal((await api.call('GET', `/v1/threads/ext:${secret}`)).status, 404);
  });

  it('names threads, which begin with the first run on them', async () => {
    const external = `chat ${randomUUID()}`;
    const name = `ext:${external}`;
    const path = `/v1/threads/${encodeURIComponent(name)}`;
    assert.equal((await api.call('GET', path)).status, 404);
    const first = await start({ thread_id: name });
    const { json } = await api.call('GET', path);
    assert.deepEqual([json.id, json.external_id, json.metadata], [first.thread_id, external, {}]);
    const busy = await api.call('POST', `/v1/agents/${agent}/runs`, { body: { thread_id: name } });
    assert.deepEqual([busy.status, busy.json.run_id], [409, first.run_id]);
    await api.call('POST', `/v1/runs/${first.run_id}/complete`, { body: {} });
    assert.equal((await start({ thread_id: name })).thread_id, first.thread_id);
    assert.equal((await idsOf(`/v1/runs?thread_id=${encodeURIComponent(name)}`, 'runs')).length, 2);
    assert.equal((await api.call('GET', `${path}/conversations`)).status, 200);
    const filter = { thread_id: name };
    assert.equal((await api.call('POST', '/v1/runs/cancel', { body: { filter } })).json.cancelled, 1);
    const objective = { schema_version: 'v1', request_id: randomUUID(), agent_id: agent, objective_prompt: 'do' };
    const { json: begun } = await api.call('POST', '/v1/objectives', { body: { ...objective, thread_id: name } });
    assert.equal((await api.call('GET', `/v1/runs/${begun.run_id}`)).json.thread_id, first.thread_id);
    const token = { ttl_seconds: 60, scopes: ['read'] };
    const { json: made } = await api.call('POST', `${path}/tokens`, { body: token });
    assert.equal((await api.call('GET', `/v1/threads/${first.thread_id}`, { key: made.token })).status, 200);
    const elsewhere = await api.newTenant();
    assert.equal((await api.call('GET', path, { key: elsewhere.key })).status, 404);
  });

  it('begins one thread of a name, however many ask at once', async () => {
    const body = { thread_id: `ext:${randomUUID()}`, input: { message: 'hi' } };
    const answers = await Promise.all(
      Array.from({ length: 5 }, () => api.call('POST', `/v1/agents/${agent}/runs`, { body })),
    );
    const made = answers.filter(({ status }) => status === 202);
    assert.equal(made.length, 1);
    assert.ok(answers.every(({ status, json }) => status === 202 || json.run_id === made[0]?.json.run_id));
  });

  it('is changed with a thread, by which lists of threads are filtered', async () => {
    const { thread_id: id } = await start();
    const { thread_id: other } = await start();
    const [mark, external] = [randomUUID(), randomUUID()];
    const patch = (thread: string, body: unknown) => api.call('PATCH', `/v1/threads/${thread}`, { body });
    const { json } = await patch(id, { metadata: { mark }, external_id: external });
    assert.deepEqual([json.metadata, json.external_id], [{ mark }, external]);
    assert.deepEqual(await idsOf(`/v1/threads?metadata.mark=${mark}`, 'threads'), [id]);
    assert.deepEqual((await patch(`ext:${external}`, { title: 'Told' })).json.metadata, { mark });
    const taken = await patch(other, { external_id: external });
    assert.deepEqual([taken.status, taken.json.thread_id], [409, id]);
    assert.equal((await patch(id, { external_id: null })).json.external_id, undefined);
    assert.equal((await patch(other, { external_id: external })).json.external_id, external);
  });
});
