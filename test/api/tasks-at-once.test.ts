/** Clients that ask for what excludes each other at the same time: one of them gets it, the others are told so. */
import assert from 'node:assert/strict';
import type { TestApi } from '../support/api.ts';
import { startTestService } from '../support/service.ts';
import { startFakeAnthropic } from '../support/fake-anthropic.ts';
import { waitUntil } from '../support/wait-until.ts';

const ENDED = ['completed', 'failed', 'cancelled'];

describe('requests about the same work that come at once', () => {
  let api: TestApi;
  let key: string;
  let ann: string;
  let bob: string;

  before(async () => {
    // Nobody ever ends what is to be thought about.
    const model = await startFakeAnthropic(({ messages }) =>
      /THINK/.test(JSON.stringify(messages))
        ? { content: [], hang: true }
        : { content: [{ type: 'text', text: 'done' }] },
    );
    api = await startTestService({ model });
    ({ key } = await api.newTenant());
    ann = await make('/v1/agents', { name: 'ann' });
    bob = await make('/v1/agents', { name: 'bob' });
  });
  after(() => api.close());

  const post = (path: string, body: unknown = {}) => api.call('POST', path, { key, body });
  const make = async (path: string, body: unknown): Promise<string> => {
    const { status, json, text } = await post(path, body);
    assert.ok(status < 300, text);
    return json.id;
  };
  const read = async (path: string) => (await api.call('GET', path, { key })).json;
  const statuses = async (asked: readonly ReturnType<typeof post>[]) =>
    (await Promise.all(asked)).map(({ status }) => status).toSorted((a, b) => a - b);
  const times = <T>(count: number, act: () => T): T[] => Array.from({ length: count }, act);
  /** Two subtasks, the first of which ann works on. */
  const begin = async () => {
    const subtasks = [
      { id: 'a', description: 'THINK', agent: 'ann' },
      { id: 'b', description: 'Go on.', dependencies: ['a'] },
    ];
    const body = { name: 'x', agent_id: ann, input: { user_query: 'Why?' }, definition: { subtasks } };
    const id = await make('/v1/workflows', body);
    await waitUntil(
      'a is under way',
      async () => (await read(`/v1/workflows/${id}`)).tasks[0].status === 'in_progress',
    );
    return { id, task: (await read(`/v1/workflows/${id}`)).tasks[0].id as string };
  };

  it('cancel a task or a workflow once', async () => {
    const { id, task } = await begin();
    assert.deepEqual(await statuses(times(6, () => post(`/v1/tasks/${task}/cancel`))), [200, 200, 200, 200, 200, 202]);
    await waitUntil('the workflow ends', async () => ENDED.includes((await read(`/v1/workflows/${id}`)).status));
    const other = await begin();
    assert.deepEqual(await statuses(times(4, () => post(`/v1/runs/${other.id}/cancel`))), [200, 200, 200, 202]);
    assert.equal((await post(`/v1/tasks/${other.task}/cancel`)).status, 200);
  });

  it('hand a task over once, and not when it has been cancelled', async () => {
    const { id, task } = await begin();
    const hand = (from: string, to: string) =>
      post('/v1/handoffs', { task_id: task, source_agent_id: from, target_agent_id: to, reason: 'r', context: {} });
    assert.deepEqual(await statuses(times(5, () => hand(ann, bob))), [201, 409, 409, 409, 409]);
    await waitUntil('bob has it', async () => {
      const { status, assignment } = await read(`/v1/tasks/${task}`);
      return status === 'in_progress' && assignment.assigned_agent_id === bob;
    });
    const [handed, cancelled] = await Promise.all([hand(bob, ann), post(`/v1/tasks/${task}/cancel`)]);
    assert.ok([201, 409].includes(handed.status), handed.text);
    assert.equal(cancelled.status, 202);
    await waitUntil('the workflow ends', async () => ENDED.includes((await read(`/v1/workflows/${id}`)).status));
    assert.equal((await hand(bob, ann)).status, 409);
    const { runs } = await read(`/v1/runs?root=${id}`);
    assert.ok(
      runs.every(({ status }: { status: string }) => ENDED.includes(status)),
      'something was left running',
    );
  });

  it('try a workflow again once', async () => {
    const { id } = await begin();
    await post(`/v1/runs/${id}/cancel`);
    assert.deepEqual(await statuses(times(4, () => post(`/v1/runs/${id}/retry`))), [202, 409, 409, 409]);
    const { runs } = await read('/v1/runs?limit=200');
    const again = runs.find((run: { retried_from: string | null }) => run.retried_from === id);
    await post(`/v1/runs/${again.run_id}/cancel`);
  });
});
