/** What becomes of tasks by their deadlines and their tokens, over HTTP. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { LIMITS } from '../../core/limits.ts';
import type { TestApi } from '../support/api.ts';
import { startTestService } from '../support/service.ts';
import { startFakeAnthropic, type AnthropicReply } from '../support/fake-anthropic.ts';
import { waitUntil } from '../support/wait-until.ts';
import { walkList } from '../support/walk-list.ts';

const ENDED = ['completed', 'failed', 'cancelled'];

describe('tasks', () => {
  let api: TestApi;
  let key: string;
  /** What the model answers to a brief, at its n-th step from 0. */
  let answer: (brief: string, step: number) => AnthropicReply | Promise<AnthropicReply>;

  const text = (said: string, more: Partial<AnthropicReply> = {}): AnthropicReply => ({
    content: [{ type: 'text', text: said }],
    ...more,
  });
  const make = async (path: string, body: unknown, expected = 202) => {
    const { status, json, text: said } = await api.call('POST', path, { key, body });
    assert.equal(status, expected, said);
    return json;
  };
  const read = async (path: string) => (await api.call('GET', path, { key })).json;
  const ended = async (id: string) => {
    await waitUntil('the task ends', async () => ENDED.includes((await read(`/v1/tasks/${id}`)).status));
    return read(`/v1/tasks/${id}`);
  };

  before(async () => {
    const model = await startFakeAnthropic(({ messages }) => {
      const steps = messages.filter(({ role }) => role === 'assistant').length;
      return answer(JSON.stringify(messages[0]?.content), steps);
    });
    api = await startTestService({ model });
    ({ key } = await api.newTenant());
    await make('/v1/agents', { name: 'lawyer', tools: ['calculator'], capabilities: [{ skill_name: 'law' }] }, 201);
    const slow = { capabilities: [{ skill_name: 'tax' }], health: { avg_latency_ms: 7000 } };
    await make('/v1/agents', { name: 'slow', ...slow }, 201);
    const one = { max_concurrent_tasks: 1 };
    await make('/v1/agents', { name: 'clerk', capabilities: [{ skill_name: 'filing' }], constraints: one }, 201);
  });
  after(() => api.close());

  const sum = { type: 'tool_use', id: 'toolu_sum', name: 'calculator', input: { expression: '1 + 1' } };
  const LAW = { required_capabilities: ['law'] };

  it('alone are runs of the planner that is built in, which can be looked at, not changed or deleted', async () => {
    answer = () => text('done');
    const { workflow_id } = await make('/v1/tasks', { description: 'Look it up.', requirements: LAW });
    const { agent_id: planner } = await read(`/v1/runs/${workflow_id}`);
    const { name, status, is_builtin, version } = await read(`/v1/agents/${planner}`);
    assert.deepEqual([name, status, is_builtin, version], ['planner', 'active', true, '1.0.0']);
    const change = (method: string, body?: unknown) => api.call(method, `/v1/agents/${planner}`, { key, body });
    for (const { status: refused, json } of [
      await change('PATCH', { description: 'x' }),
      await change('PATCH', { suspended: true }),
      await change('DELETE'),
    ])
      assert.deepEqual([refused, json.detail], [409, 'The built-in planner cannot be changed or deleted.']);
    const { agents } = await read('/v1/agents');
    assert.ok(agents.every(({ id }: { id: string }) => id !== planner));
    await make(`/v1/agents/${planner}/runs`, { input: { message: 'hello' } }, 404);
  });

  it('that use up their tokens have failed, and what was said by then is their output', async () => {
    answer = (_, step) => {
      const usage = { input_tokens: 1500, output_tokens: 100 };
      const said = { type: 'text', text: `Part ${step + 1}.` };
      return { content: [said, { ...sum, id: `toolu_${step}` }], usage };
    };
    const { id } = await make('/v1/tasks', { description: 'Do it.', requirements: { ...LAW, max_cost_tokens: 6000 } });
    const task = await ended(id);
    assert.deepEqual([task.status, task.error.code, task.last_error.code], ['failed', 'budget', 'budget']);
    assert.equal(task.error.message, 'The tokens of the task are used up.');
    assert.equal(task.execution.last_error, task.error.message);
    assert.match(task.output.result, /Part \d+\./);
    assert.ok(task.output.tokens_used > 0);
    assert.equal(task.retry_count, 0);
  });

  it('that are late have failed, whatever they were at, and are not tried again', async () => {
    answer = (_, step) =>
      step === 0 ? { content: [{ type: 'text', text: 'Half.' }, sum] } : { content: [], hang: true };
    const deadline = new Date(Date.now() + 1500).toISOString();
    const { id } = await make('/v1/tasks', { description: 'Do it.', requirements: { ...LAW, deadline } });
    const task = await ended(id);
    assert.deepEqual([task.status, task.error.code, task.retry_count], ['failed', 'deadline', 0]);
    assert.ok(Date.parse(task.completed_at) >= Date.parse(deadline));
    assert.equal((await read(`/v1/runs/${task.run_id}`)).status, 'cancelled');
    assert.equal((await read(`/v1/workflows/${task.workflow_id}`)).status, 'failed');
  });

  it('say when they may be done, by whoever fits best, and no later than they have to', async () => {
    answer = () => ({ content: [], hang: true });
    const requirements = { required_capabilities: ['tax'] };
    const free = await make('/v1/tasks', { description: 'Do it.', requirements });
    assert.equal(Date.parse(free.estimated_completion) - Date.parse(free.created_at), 7000);
    const deadline = new Date(Date.parse(free.created_at) + 3000).toISOString();
    const bound = await make('/v1/tasks', { description: 'Do it.', requirements: { ...requirements, deadline } });
    assert.equal(bound.estimated_completion, deadline);
    for (const { id } of [free, bound]) await make(`/v1/tasks/${id}/cancel`, {});
  });

  it('prefer and exclude agents of their workspace alone', async () => {
    const { id: ours } = await make('/v1/agents', { name: 'ours' }, 201);
    await api.call('DELETE', `/v1/agents/${ours}`, { key });
    const theirs: string = (await api.call('POST', '/v1/agents', { body: { name: 'theirs' } })).json.id;
    answer = () => ({ content: [], hang: true });
    for (const field of ['preferred_agents', 'excluded_agents']) {
      const submit = (ids: string[], expected: number) =>
        make('/v1/tasks', { description: 'Do it.', requirements: { [field]: ids } }, expected);
      for (const unknown of [theirs, randomUUID()]) {
        const { detail, errors } = await submit([ours, unknown], 422);
        const path = `body.requirements.${field}.1`;
        const message = `names no agent of this workspace: ${unknown}`;
        assert.deepEqual([detail, errors], [`${path} ${message}`, [{ path, message }]]);
      }
      await submit(['ext:nobody'], 404);
      const { id } = await submit([ours], 202);
      await make(`/v1/tasks/${id}/cancel`, {});
    }
  });

  it('begin in the order of their deadlines where an agent takes one at a time', async () => {
    const begun: string[] = [];
    let goOn = () => {};
    answer = async (brief) => {
      const name = /Do (\w+)/.exec(brief)?.[1] ?? '';
      begun.push(name);
      if (name === 'first') await new Promise<void>((resolve) => (goOn = resolve));
      return text('done');
    };
    const file = (description: string, minutes?: number) => {
      const deadline = minutes && new Date(Date.now() + minutes * 60_000).toISOString();
      return { description, requirements: { required_capabilities: ['filing'], ...(deadline && { deadline }) } };
    };
    const { id, workflow_id } = await make('/v1/tasks', file('Do first.'));
    await waitUntil('the first begins', () => Promise.resolve(begun.length === 1));
    const later = [file('Do whenever.'), file('Do late.', 30), file('Do soon.', 10), file('Do next.', 20)];
    const ids = [id];
    for (const task of later) ids.push((await make('/v1/tasks', { ...task, workflow_id })).id);
    goOn();
    for (const each of ids) assert.equal((await ended(each)).status, 'completed');
    assert.deepEqual(begun, ['first', 'soon', 'next', 'late', 'whenever']);
  });

  it('have their tokens for all attempts together', async () => {
    answer = (_, step) =>
      step === 0
        ? { content: [sum], stop_reason: 'tool_use', usage: { input_tokens: 2500, output_tokens: 50 } }
        : { error: { status: 400, type: 'invalid_request_error' } };
    const { id, workflow_id } = await make('/v1/tasks', {
      description: 'Sum it.',
      requirements: { ...LAW, max_cost_tokens: 3000 },
    });
    const task = await ended(id);
    assert.deepEqual([task.status, task.error.code, task.retry_count], ['failed', 'budget', 1]);
    const tree = await read(`/v1/runs/${workflow_id}/tree`);
    const used = JSON.stringify(tree).match(/"tokens_in":2500/g) ?? [];
    assert.equal(used.length, 2, 'the second has used up what the first had left');
  });

  it('and workflows are listed in pages that end where they are large enough', async () => {
    answer = () => ({ content: [], hang: true });
    const input = { user_query: 'Do it.', context: 'x'.repeat(1_500_000) };
    const requirements = { required_capabilities: ['nobody has this'] };
    const definition = { subtasks: [{ id: 'a', description: 'Do it.', ...requirements }] };
    const made: Record<'tasks' | 'workflows', string[]> = { tasks: [], workflows: [] };
    for (let n = 0; n < 4; n++) {
      made.tasks.unshift((await make('/v1/tasks', { description: 'Do it.', input, requirements })).id);
      made.workflows.unshift((await make('/v1/workflows', { name: 'large', input, definition })).id);
    }
    for (const list of ['tasks', 'workflows'] as const) {
      const listed = (await walkList(api, `/v1/${list}`, { key, list })).map(({ id }) => id);
      assert.deepEqual(
        listed.filter((id) => made[list].includes(id ?? '')),
        made[list],
        list,
      );
      assert.equal(new Set(listed).size, listed.length);
    }
  });

  it('of a workflow have the room of a page there: the largest of them are shown by their address', async () => {
    answer = () => ({ content: [], hang: true });
    const definition = { subtasks: [{ id: 'a', description: 'Do it.', ...LAW }] };
    const { id: workflow_id } = await make('/v1/workflows', { name: 'w', input: { user_query: 'Do it.' }, definition });
    const sizes = [1_500_000, 1_400_000, 1_300_000, 1_200_000, 10];
    for (const size of sizes) {
      const input = { context: 'x'.repeat(size) };
      await make('/v1/tasks', { workflow_id, description: `Do ${size}.`, input, requirements: LAW });
    }
    const { text: whole, json } = await api.call('GET', `/v1/workflows/${workflow_id}`, { key });
    assert.ok(whole.length < LIMITS.eventsPageBytes, `${whole.length} characters`);
    const shown = json.tasks.map((task: { description: string }) => task.description);
    assert.deepEqual(shown, ['Do it.', '', 'Do 1400000.', 'Do 1300000.', 'Do 1200000.', 'Do 10.']);
    const { input, output, content_ref, content_bytes } = json.tasks[1];
    assert.deepEqual([input, output, content_bytes > 1_500_000], [{}, null, true]);
    const { description, input: given } = await read(content_ref);
    assert.deepEqual([description, given.context.length], ['Do 1500000.', 1_500_000]);
    await make(`/v1/runs/${workflow_id}/cancel`, {});
  });

  it('are not given back for their Idempotency-Key once they are erased', async () => {
    answer = () => text('done');
    const post = () =>
      api.call('POST', '/v1/tasks', {
        key,
        body: { description: 'Remember canary-7.', requirements: LAW },
        headers: { 'idempotency-key': 'erased-task' },
      });
    const { json } = await post();
    await ended(json.id);
    assert.ok((await post()).text.includes('canary-7'));
    assert.equal((await api.call('DELETE', `/v1/runs/${json.workflow_id}`, { key })).status, 202);
    const again = await post();
    assert.deepEqual([again.json.id, again.text.includes('canary-7')], [json.id, false], again.text);
  });
});
