import assert from 'node:assert/strict';
import type { TestApi } from '../support/api.ts';
import { startTestService } from '../support/service.ts';
import { startFakeAnthropic, type AnthropicRequest } from '../support/fake-anthropic.ts';
import { waitUntil } from '../support/wait-until.ts';

const ENDED = ['completed', 'failed', 'cancelled'];
const MET = { meets_criteria: true, gaps: [] };

type Answer = Record<string, unknown>;
type Script = Record<string, (n: number, asked: string) => Answer | Promise<Answer>>;

describe('a task that joins a workflow while its planner is asked', () => {
  let api: TestApi;
  let key: string;
  let agent: string;
  let script: Script;
  /** How often each tool was asked for. */
  let asked: Record<string, number>;
  /** The workflow under way. */
  let flowId: string;
  /** What the work of subtasks waits for: that `flowId` is known. */
  let isKnown: Promise<void>;

  const make = async (path: string, body: unknown, expected: number) => {
    const { status, json, text } = await api.call('POST', path, { key, body });
    assert.equal(status, expected, text);
    return json;
  };
  const read = async (path: string) => (await api.call('GET', path, { key })).json;
  const subtask = (id: string, ...dependencies: string[]) => ({ id, description: `Do ${id}.`, dependencies });
  const run = async (more: Record<string, unknown> = {}) => {
    asked = {};
    let know = () => {};
    isKnown = new Promise((resolve) => (know = resolve));
    const definition = { subtasks: [subtask('a'), subtask('b')] };
    const body = { name: 'joined', agent_id: agent, input: { user_query: 'What is it?' }, definition, ...more };
    ({ id: flowId } = await make('/v1/workflows', body, 202));
    know();
    await waitUntil('the workflow ends', async () => ENDED.includes((await read(`/v1/workflows/${flowId}`)).status));
    return read(`/v1/workflows/${flowId}`);
  };
  const join = async (name: string): Promise<string> =>
    (await make('/v1/tasks', { description: `Do ${name}.`, workflow_id: flowId }, 202)).id;
  const done = (id: string) =>
    waitUntil('the task is done', async () => (await read(`/v1/tasks/${id}`)).status === 'completed');
  const tasksOf = (flow: { tasks: { subtask_id: string; status: string }[] }) =>
    flow.tasks.map(({ subtask_id, status }) => `${subtask_id} ${status}`);
  /** The results that a planner was told. */
  const told = (said: string) => [...new Set(said.match(/done: \w+/g))].toSorted().join(', ');

  before(async () => {
    const model = await startFakeAnthropic(async (request: AnthropicRequest) => {
      const said = JSON.stringify(request.messages);
      const name = request.tools?.find((tool) => tool.name.startsWith('submit_'))?.name;
      if (name === undefined) {
        await isKnown;
        return { content: [{ type: 'text', text: `done: ${/Do (\w+)\./.exec(said)?.[1] ?? 'all'}` }] };
      }
      const n = asked[name] ?? 0;
      asked[name] = n + 1;
      const input = await script[name]?.(n, said);
      if (!input) return { content: [{ type: 'text', text: 'I will not.' }] };
      return { content: [{ type: 'tool_use', id: `toolu_${name}_${n}`, name, input }] };
    });
    api = await startTestService({ model });
    ({ key } = await api.newTenant());
    const constraints = { max_concurrent_tasks: 1 };
    ({ id: agent } = await make('/v1/agents', { name: 'solo', constraints }, 201));
  });
  after(() => api.close());

  it('is done, and part of the answer, though the answer was being written', async () => {
    script = {
      submit_synthesis: async (n, said) => {
        if (n === 0) for (const name of ['c', 'd', 'e']) await join(name);
        return { result: told(said) };
      },
    };
    const flow = await run();
    assert.equal(flow.result, 'done: a, done: b, done: c, done: d, done: e', JSON.stringify(flow.tasks));
    assert.deepEqual(
      tasksOf(flow),
      ['a', 'b', 'task-3', 'task-4', 'task-5'].map((name) => `${name} completed`),
    );
    const another = await run({ definition: { subtasks: [subtask('a')] } });
    assert.equal(another.status, 'completed', 'the agent has its place again');
  });

  it('is part of the answer also if it was done before that was checked', async () => {
    script = {
      submit_synthesis: (_n, said) => ({ result: told(said) }),
      submit_verdict: async (n) => {
        if (n === 0) await done(await join('c'));
        return MET;
      },
    };
    const definition = { subtasks: [subtask('a'), subtask('b')], success_criteria: 'It is said.' };
    const flow = await run({ definition });
    assert.deepEqual([flow.result, flow.meets_criteria], ['done: a, done: b, done: c', true]);
    assert.deepEqual(asked, { submit_synthesis: 2, submit_verdict: 2 });
  });

  it('is part of the answer also if the gaps of the one before could not be planned', async () => {
    script = {
      submit_synthesis: (_n, said) => ({ result: told(said) }),
      submit_verdict: (n) => (n === 0 ? { meets_criteria: false, gaps: ['the price'] } : MET),
      submit_plan: async (n) => {
        if (n === 0) await join('c');
        return { subtasks: [subtask('early'), subtask('late', 'nothing')] };
      },
    };
    const flow = await run({ definition: { subtasks: [subtask('a')], success_criteria: 'It is said.' } });
    assert.deepEqual([flow.status, flow.result, flow.meets_criteria], ['completed', 'done: a, done: c', true]);
    const ends = new Set(tasksOf(flow));
    assert.deepEqual(ends, new Set(['a completed', 'task-2 completed', 'early cancelled']));
    assert.deepEqual(asked, { submit_verdict: 2, submit_plan: 2, submit_synthesis: 1 });
  });

  for (const execution of ['eager', 'levels']) {
    it(`keeps its name to itself where a plan of the workflow uses it, too (${execution})`, async () => {
      script = {
        submit_synthesis: (_n, said) => ({ result: told(said) }),
        submit_verdict: (n) => (n === 0 ? { meets_criteria: false, gaps: ['the price'] } : MET),
        submit_plan: async () => {
          await join('c');
          return { subtasks: [subtask('task-2'), { ...subtask('last', 'task-2'), description: 'Do last.' }] };
        },
      };
      const definition = { subtasks: [subtask('a')], success_criteria: 'It is said.' };
      const flow = await run({ definition, execution });
      assert.equal(flow.status, 'completed', JSON.stringify(flow.error));
      const tasks = flow.tasks as { id: string; subtask_id: string; description: string; dependencies: string[] }[];
      const named = (name: string) => tasks.filter(({ subtask_id }) => subtask_id === name);
      assert.deepEqual(
        ['a', 'task-2', 'task-2_2', 'last'].map((name) => named(name).map(({ description }) => description)),
        [['Do a.'], ['Do c.'], ['Do task-2.'], ['Do last.']],
      );
      assert.deepEqual(named('last')[0]?.dependencies, [named('task-2_2')[0]?.id]);
    });
  }

  it('gets another name than a subtask that is there has', async () => {
    script = {
      submit_synthesis: async (n, said) => {
        if (n === 0) await join('c');
        return { result: told(said) };
      },
    };
    const flow = await run({ definition: { subtasks: [subtask('a'), subtask('b'), subtask('task-4')] } });
    assert.deepEqual(tasksOf(flow), ['a completed', 'b completed', 'task-4 completed', 'task-4_2 completed']);
  });

  it('takes nothing from the plan if it is done before there is one', async () => {
    script = {
      submit_plan: async () => {
        await done(await join('c'));
        return { subtasks: [subtask('a')] };
      },
      submit_synthesis: (_n, said) => ({ result: told(said) }),
    };
    const flow = await run({ definition: undefined });
    assert.deepEqual([flow.status, flow.result], ['completed', 'done: a, done: c']);
  });
});
