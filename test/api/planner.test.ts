import assert from 'node:assert/strict';
import type { TestApi } from '../support/api.ts';
import { startTestService } from '../support/service.ts';
import { startFakeAnthropic, type AnthropicRequest } from '../support/fake-anthropic.ts';
import type { FakeServer } from '../support/fake-http.ts';
import { waitUntil } from '../support/wait-until.ts';

const ENDED = ['completed', 'failed', 'cancelled'];

type Script = Record<string, (n: number, asked: string) => Record<string, unknown>>;

describe('the planner of a workflow', () => {
  let api: TestApi;
  let model: FakeServer;
  let key: string;
  let agent: string;
  let script: Script;
  /** What was asked for by each tool. */
  let asked: Record<string, string[]>;

  const make = async (path: string, body: unknown, expected: number) => {
    const { status, json, text } = await api.call('POST', path, { key, body });
    assert.equal(status, expected, text);
    return json;
  };
  const run = async (more: Record<string, unknown> = {}) => {
    asked = {};
    const body = { name: 'planned', agent_id: agent, input: { user_query: 'What is it?' }, ...more };
    const { id } = await make('/v1/workflows', body, 202);
    const read = async () => (await api.call('GET', `/v1/workflows/${id}`, { key })).json;
    await waitUntil('the workflow ends', async () => ENDED.includes((await read()).status));
    return read();
  };
  const subtask = (id: string, ...dependencies: string[]) => ({ id, description: `Do ${id}.`, dependencies });

  before(async () => {
    model = await startFakeAnthropic((request: AnthropicRequest) => {
      const said = JSON.stringify(request.messages);
      const name = request.tools?.find((tool) => tool.name.startsWith('submit_'))?.name;
      if (name === undefined)
        return { content: [{ type: 'text', text: `done: ${/Do (\w+)\./.exec(said)?.[1] ?? 'all'}` }] };
      const before = (asked[name] ??= []);
      const input = script[name]?.(before.push(said) - 1, said);
      if (!input) return { content: [{ type: 'text', text: 'I will not.' }] };
      return { content: [{ type: 'tool_use', id: `toolu_${before.length}`, name, input }] };
    });
    api = await startTestService({ model });
    ({ key } = await api.newTenant());
    ({ id: agent } = await make('/v1/agents', { name: 'worker' }, 201));
  });
  after(() => api.close());

  it('splits the work, makes one answer of the results, and checks it', async () => {
    script = {
      submit_plan: () => ({ subtasks: [subtask('a'), subtask('b', 'a')], success_criteria: 'It is said.' }),
      submit_synthesis: (_n, said) => ({
        result: `made of ${/done: a/.test(said) ? 'a' : '?'} and ${/done: b/.test(said) ? 'b' : '?'}`,
      }),
      submit_verdict: () => ({ meets_criteria: true, gaps: [] }),
    };
    const flow = await run();
    assert.deepEqual(
      [flow.status, flow.result, flow.success_criteria, flow.meets_criteria],
      ['completed', 'made of a and b', 'It is said.', true],
    );
    assert.deepEqual(
      flow.tasks.map((task: { subtask_id: string; status: string }) => [task.subtask_id, task.status]),
      [
        ['a', 'completed'],
        ['b', 'completed'],
      ],
    );
    assert.match(asked['submit_plan']?.[0] ?? '', /What is it\?/);
  });

  it('asks once more for a plan that goes in a circle, and then fails with InvalidPlan', async () => {
    const circle = { subtasks: [subtask('a', 'b'), subtask('b', 'a')], success_criteria: '' };
    script = { submit_plan: (n) => (n === 0 ? circle : { subtasks: [subtask('a')], success_criteria: '' }) };
    const mended = await run();
    assert.deepEqual([mended.status, mended.result, asked['submit_plan']?.length], ['completed', 'done: a', 2]);
    assert.match(asked['submit_plan']?.[1] ?? '', /circle/);
    script = { submit_plan: () => circle };
    const failed = await run();
    assert.deepEqual([failed.status, failed.error.code, asked['submit_plan']?.length], ['failed', 'InvalidPlan', 2]);
  });

  it('plans what is missing, no more often than it may, and repeats nothing', async () => {
    script = {
      submit_plan: () => ({ subtasks: [{ ...subtask('more'), dependencies: ['a'] }], success_criteria: '' }),
      submit_synthesis: (n) => ({ result: `answer ${n + 1}` }),
      submit_verdict: (n) => ({ meets_criteria: n > 0, gaps: n > 0 ? [] : ['the price'] }),
    };
    const definition = { subtasks: [subtask('a'), subtask('b')], success_criteria: 'With a price.' };
    const flow = await run({ definition });
    assert.deepEqual([flow.status, flow.result, flow.plans, flow.meets_criteria], ['completed', 'answer 2', 2, true]);
    assert.match(asked['submit_plan']?.[0] ?? '', /the price/);
    assert.deepEqual(
      flow.tasks.map((task: { subtask_id: string; retry_count: number }) => [task.subtask_id, task.retry_count]),
      [
        ['a', 0],
        ['b', 0],
        ['more', 0],
      ],
    );
    const { json: children } = await api.call('GET', `/v1/runs?parent=${flow.id}`, { key });
    assert.equal(children.runs.length, 3);
    script = { ...script, submit_verdict: () => ({ meets_criteria: false, gaps: ['everything'] }) };
    const unmet = await run({ definition, max_replans: 0 });
    assert.deepEqual(
      [unmet.status, unmet.meets_criteria, unmet.gaps, unmet.plans],
      ['completed', false, ['everything'], 1],
    );
  });

  it('answers with the results as they are where a model makes nothing of them', async () => {
    script = {};
    const definition = { subtasks: [subtask('a'), subtask('b')] };
    const flow = await run({ definition });
    assert.deepEqual(
      [flow.status, flow.result, flow.meets_criteria],
      ['completed', 'a:\ndone: a\n\nb:\ndone: b', null],
    );
  });
});
