import assert from 'node:assert/strict';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { waitUntil } from '../support/wait-until.ts';

describe('A key that writes and may not read', () => {
  let api: ScriptedService;
  let key: string;
  let agent: string;
  before(async () => {
    api = await startScriptedService();
    key = (await api.call('POST', '/v1/api-keys', { body: { name: 'writer', scopes: ['runs:write'] } })).json.key;
    agent = await api.newAgent();
  });
  after(() => api.close());

  /** A run of somebody else's that has said something, and waits between turns. */
  async function secretRun(): Promise<{ run: string; thread: string; turn: string }> {
    const { json } = await api.call('POST', `/v1/agents/${agent}/runs`, {
      body: { input: { message: 'say the secret' }, config: { keep_open: true } },
    });
    const { run_id: run, thread_id: thread, turn_id: turn } = json;
    await waitUntil('it is said', async () => {
      const { json: now } = await api.call('GET', `/v1/runs/${run}`);
      return now.output?.message === 'the secret' && now.status === 'awaiting_human';
    });
    return { run, thread, turn };
  }

  it('changes a thread and a conversation, and is shown nothing of them', async () => {
    const { thread, turn } = await secretRun();
    await api.call('PATCH', `/v1/threads/${thread}`, { body: { title: 'secret', extras: { secret: 1 } } });
    const paths = [`/v1/threads/${thread}`, `/v1/threads/${thread}/conversations/${turn}`];
    for (const path of paths) {
      const looked = await api.call('PATCH', path, { key, body: {} });
      assert.equal(looked.status, 204, looked.text);
      assert.equal(looked.text, '');
      const changed = await api.call('PATCH', path, { key, body: { extras: { mine: true } } });
      assert.equal(changed.status, 204, changed.text);
    }
    const { json } = await api.call('GET', paths[0] ?? '');
    assert.deepEqual([json.title, json.extras], ['secret', { mine: true }]);
    const other = await api.newTenant();
    assert.equal((await api.call('PATCH', paths[0] ?? '', { key: other.key, body: {} })).status, 404);
  });

  it('ends runs, and is not told what they have said', async () => {
    const { run } = await secretRun();
    const completed = await api.call('POST', `/v1/runs/${run}/complete`, { key, body: {} });
    assert.deepEqual([completed.status, completed.json.status], [200, 'completed']);
    const { run: other } = await secretRun();
    for (const status of [202, 200]) {
      const cancelled = await api.call('POST', `/v1/runs/${other}/cancel`, { key, body: {} });
      assert.deepEqual([cancelled.status, cancelled.json.status], [status, 'cancelled']);
      assert.doesNotMatch(cancelled.text + completed.text, /secret/);
    }
    assert.equal((await api.call('POST', `/v1/runs/${other}/cancel`, { body: {} })).json.output.message, 'the secret');
  });

  it('cancels a task, and is not told what it was about', async () => {
    const about = { user_query: 'the secret', context: { secret: 1 } };
    const body = { description: 'held task say the secret', input: about };
    const { json } = await api.call('POST', '/v1/tasks', { body });
    const cancelled = await api.call('POST', `/v1/tasks/${json.task_id}/cancel`, { key, body: {} });
    assert.deepEqual([cancelled.status, cancelled.json.status], [202, 'cancelled']);
    assert.doesNotMatch(cancelled.text, /secret/);
    api.model.release('task');
  });

  it('corrects a memory, and is not told what was remembered', async () => {
    const { key: writer } = (await api.call('POST', '/v1/api-keys', { body: { name: 'w', scopes: ['memory:write'] } }))
      .json;
    const path = `/v1/agents/${agent}/memory`;
    const entry = { memory_type: 'SEMANTIC', content: 'the secret', metadata: { secret: 1 } };
    const { json } = await api.call('POST', path, { body: entry });
    const looked = await api.call('PATCH', `${path}/${json.id}`, { key: writer, body: { importance: 0.6 } });
    assert.deepEqual([looked.status, looked.json.id], [200, json.id]);
    const changed = await api.call('PATCH', `${path}/${json.id}`, { key: writer, body: { content: 'another one' } });
    assert.doesNotMatch(looked.text + changed.text, /secret/);
    const now = await api.call('GET', `${path}/${changed.json.id}`);
    assert.equal(now.json.content, 'another one');
    assert.match(JSON.stringify(now.json.history), /the secret/);
  });
});
