import assert from 'node:assert/strict';
import { LIMITS } from '../../core/limits.ts';
import { addDoneTasks } from '../support/queries/workflows.ts';
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
  /** What those wait for who do the work. */
  let working: Promise<void> | undefined;

  const make = async (path: string, body: unknown, expected: number) => {
    const { status, json, text } = await api.call('POST', path, { key, body });
    assert.equal(status, expected, text);
    return json;
  };
  const read = async (id: string) => (await api.call('GET', `/v1/workflows/${id}`, { key })).json;
  const run = async (more: Record<string, unknown> = {}, meanwhile?: (id: string) => Promise<void>) => {
    asked = {};
    const body = { name: 'planned', agent_id: agent, input: { user_query: 'What is it?' }, ...more };
    const { id } = await make('/v1/workflows', body, 202);
    await meanwhile?.(id);
    await waitUntil('the workflow ends', async () => ENDED.includes((await read(id)).status));
    return read(id);
  };
  const subtask = (id: string, ...dependencies: string[]) => ({ id, description: `Do ${id}.`, dependencies });

  before(async () => {
    model = await startFakeAnthropic(async (request: AnthropicRequest) => {
      const said = JSON.stringify(request.messages);
      const name = request.tools?.find((tool) => tool.name.startsWith('submit_'))?.name;
      if (name === undefined) await working;
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

  it('checks the own answer of a team, and has its members fill the gaps', async () => {
    const skilled = (name: string, skill: string) =>
      make('/v1/agents', { name, capabilities: [{ skill_name: skill }] }, 201);
    const { id: member } = await skilled('of the team', 'law');
    await skilled('of no team', 'magic');
    const team = { name: 'voters', orchestration_pattern: 'parallel', members: [{ agent_id: member }] };
    const { id: team_id } = await make('/v1/teams', team, 201);
    const definition = { subtasks: [subtask('a'), subtask('b')], success_criteria: 'It has a price.' };
    script = {
      submit_verdict: (n) => ({ meets_criteria: n > 0, gaps: n > 0 ? [] : ['the price'] }),
      submit_plan: () => ({ subtasks: [{ ...subtask('price'), required_capabilities: ['law'] }] }),
      submit_synthesis: () => ({ result: 'all of it' }),
    };
    const flow = await run({ agent_id: undefined, team_id, definition });
    assert.deepEqual([flow.status, flow.result, flow.meets_criteria, flow.gaps], ['completed', 'all of it', true, []]);
    assert.match(asked['submit_verdict']?.[0] ?? '', /It has a price\..*Answer:\\na:\\ndone: a\\n\\nb:\\ndone: b"/);
    assert.match(asked['submit_plan']?.[0] ?? '', /the price.*Capabilities that workers have: law"/);
    const doers = flow.tasks.map(
      (task: { assignment: { assigned_agent_id: string } }) => task.assignment.assigned_agent_id,
    );
    assert.deepEqual(doers, [member, member, member]);
    script['submit_verdict'] = () => ({ meets_criteria: false, gaps: ['the price'] });
    const short = await run({ agent_id: undefined, team_id, definition, max_replans: 0 });
    assert.deepEqual(
      [short.status, short.result, short.gaps],
      ['completed', 'a:\ndone: a\n\nb:\ndone: b', ['the price']],
    );
    assert.deepEqual([short.meets_criteria, Object.keys(asked)], [false, ['submit_verdict']]);
  });

  it('tells the log what the planner was asked, so that turn, conversation, dashboard and budget come to the same', async () => {
    const { id: planner } = await make('/v1/agents', { name: 'planner' }, 201);
    const budget = await make('/v1/budgets', { agent_id: planner, max_tokens: 1_000_000, period: 'total' }, 201);
    const get = async (path: string) => (await api.call('GET', path, { key })).json;
    const byWorker = (name: string) => ({ ...subtask(name), agent: 'worker' });
    script = {
      submit_plan: () => ({ subtasks: [byWorker('a'), byWorker('b')], success_criteria: 'It is said.' }),
      submit_synthesis: (n) => (n === 0 ? {} : { result: 'both' }),
      submit_verdict: () => ({ meets_criteria: true, gaps: [] }),
    };
    const flow = await run({ agent_id: planner });
    const tools = ['submit_plan', 'submit_synthesis', 'submit_synthesis', 'submit_verdict'];
    const { children, ...top } = await get(`/v1/runs/${flow.id}/tree`);
    const { events } = await get(`/v1/runs/${flow.id}/events?types=model.called,model.responded`);
    const toolOf = ({ payload }: { payload: { tool?: string; tool_choice?: { tool: string } } }) =>
      payload.tool ?? payload.tool_choice?.tool;
    assert.deepEqual(
      events.map(toolOf),
      tools.flatMap((tool) => [tool, tool]),
    );
    const { actions } = await get(`/v1/runs/${flow.id}/log?types=api_response_received`);
    assert.equal(actions.length, tools.length);
    const spent = tools.length * 10;
    const ofChildren = children.reduce((all: number, child: typeof top) => all + child.usage.tokens_in, 0);
    assert.ok(ofChildren > 0);
    assert.deepEqual([flow.usage.tokens_in, top.usage], [spent + ofChildren, flow.usage]);
    const { turns } = await get(`/v1/runs/${flow.id}/turns`);
    assert.equal(turns[0].usage.tokens_in, spent);
    const { conversations } = await get(`/v1/threads/${top.thread_id}/conversations`);
    assert.equal(conversations[0].usage.input_tokens, spent);
    for (const by of ['agent', 'model', 'day']) {
      const usage = await get(`/v1/dashboard/usage?agent_id=${planner}&group_by=${by}`);
      assert.deepEqual([usage.total.tokens_in, usage.groups[0].tokens_in, usage.own_calls], [spent, spent, []]);
      const held = (await get(`/v1/budgets/${budget.id}`)).spent;
      assert.deepEqual([held.tokens, held.cost_usd], [spent + usage.total.tokens_out, usage.total.cost_usd]);
    }
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

  it('takes a further plan that counts its subtasks from the beginning again', async () => {
    script = {
      submit_plan: () => ({ subtasks: [subtask('a'), subtask('b', 'a')], success_criteria: 'It is said.' }),
      submit_synthesis: () => ({ result: 'an answer' }),
      submit_verdict: () => ({ meets_criteria: false, gaps: ['the price'] }),
    };
    const flow = await run({ max_replans: 1 });
    assert.deepEqual(
      [flow.status, flow.result, flow.meets_criteria, flow.plans, asked['submit_plan']?.length],
      ['completed', 'an answer', false, 2, 2],
      JSON.stringify(flow.error),
    );
    const tasks = flow.tasks as { id: string; subtask_id: string; status: string; dependencies: string[] }[];
    assert.deepEqual(
      tasks.map(({ subtask_id, status }) => [subtask_id, status]),
      [
        ['a', 'completed'],
        ['b', 'completed'],
        ['a_2', 'completed'],
        ['b_2', 'completed'],
      ],
    );
  });

  it('begins nothing of a further plan with an earlier result before it is known whether the plan means that', async () => {
    const gaps = [subtask('c', 'a'), subtask('a'), subtask('a_2')];
    script = {
      submit_plan: (n) => ({ subtasks: n === 0 ? [subtask('a'), subtask('b', 'a')] : gaps, success_criteria: 'Said.' }),
      submit_synthesis: () => ({ result: 'an answer' }),
      submit_verdict: () => ({ meets_criteria: false, gaps: ['the price'] }),
    };
    const flow = await run({ max_replans: 1, execution: 'eager' });
    const names = flow.tasks.map(({ subtask_id }: { subtask_id: string }) => subtask_id);
    assert.deepEqual(
      [flow.status, names.toSorted()],
      ['completed', ['a', 'a_2', 'a_3', 'b', 'c']],
      JSON.stringify(flow),
    );
    const { json: children } = await api.call('GET', `/v1/runs?parent=${flow.id}`, { key });
    const ends = children.runs.map(({ status }: { status: string }) => status);
    assert.deepEqual(ends, Array(5).fill('completed'), 'nothing was begun and cancelled');
  });

  it('has those do a subtask whom the plan names, and is asked once more where it names nobody', async () => {
    const { id: named } = await make('/v1/agents', { name: 'namesake' }, 201);
    const plan = (one: string) => ({
      subtasks: [
        { ...subtask('a'), agent: one },
        { ...subtask('b'), agent: named },
        { ...subtask('c'), agent: null },
        { ...subtask('d'), agent: '' },
      ],
    });
    script = { submit_plan: (n) => plan(n === 0 ? 'nobody' : 'namesake'), submit_synthesis: () => ({ result: 'all' }) };
    const flow = await run();
    const byName = new Map(flow.tasks.map((task: { subtask_id: string }) => [task.subtask_id, task]));
    const workers = ['a', 'b', 'c', 'd'].map((name) => {
      const { assignment } = byName.get(name) as { assignment: Record<string, string> };
      return [assignment['assigned_agent_id'], assignment['assignment_reason']];
    });
    assert.equal(flow.status, 'completed');
    assert.deepEqual(workers, [
      [named, 'named'],
      [named, 'named'],
      [agent, 'workflow_agent'],
      [agent, 'workflow_agent'],
    ]);
    assert.equal(asked['submit_plan']?.length, 2);
    assert.match(asked['submit_plan']?.[1] ?? '', /name no agents: nobody/);
    script = { submit_plan: () => ({ subtasks: [{ ...subtask('a'), agent: 7 }] }) };
    const failed = await run();
    assert.deepEqual([failed.status, failed.error.code], ['failed', 'InvalidPlan']);
  });

  it('plans no more tasks than a workflow may have, and nothing where it has as many', async () => {
    let full = () => {};
    const filled = () => new Promise<void>((resolve) => (full = resolve));
    const replanned = async (room: number, gaps: number) => {
      working = filled();
      const plan = Array.from({ length: gaps }, (_, n) => subtask(`gap${n}`));
      script = {
        submit_plan: () => ({ subtasks: plan, success_criteria: '' }),
        submit_synthesis: () => ({ result: 'all' }),
        submit_verdict: (n) => ({ meets_criteria: n > 0, gaps: n > 0 ? [] : ['the price'] }),
      };
      const definition = { subtasks: [subtask('a')], success_criteria: 'With a price.' };
      return run({ definition }, async (id) => {
        await waitUntil('it is under way', async () => (await read(id)).tasks[0].run_id !== null);
        await addDoneTasks(api, id, LIMITS.subtasksPerPlan - 1 - room);
        full();
      });
    };
    const fits = await replanned(2, 2);
    assert.deepEqual([fits.status, fits.meets_criteria, fits.tasks.length], ['completed', true, 1000]);
    const passes = await replanned(2, 3);
    // Two were begun while the plan was written.
    assert.deepEqual([passes.status, passes.gaps, passes.tasks.length], ['completed', ['the price'], 1000]);
    assert.match(asked['submit_plan']?.[1] ?? '', /<=2 items/);
    const none = await replanned(0, 1);
    assert.deepEqual(
      [none.status, none.meets_criteria, none.gaps, none.tasks.length],
      ['completed', false, ['the price'], 1000],
    );
    assert.equal(asked['submit_plan'], undefined);
  });

  it('keeps the answer that is there where no plan for its gaps can be used', async () => {
    const broken = { subtasks: [subtask('early'), subtask('late', 'nothing')], success_criteria: '' };
    script = {
      submit_plan: (n) => (n === 0 ? { subtasks: [subtask('a')], success_criteria: 'With a price.' } : broken),
      submit_verdict: () => ({ meets_criteria: false, gaps: ['the price'] }),
    };
    const flow = await run();
    assert.deepEqual(
      [flow.status, flow.result, flow.meets_criteria, flow.gaps, flow.plans],
      ['completed', 'done: a', false, ['the price'], 1],
      JSON.stringify(flow.error),
    );
    assert.equal(asked['submit_plan']?.length, 3);
    // What a broken plan has begun comes to nothing, and is not left at work.
    const { json } = await api.call('GET', `/v1/runs?parent=${flow.id}`, { key });
    const open = json.runs.filter(({ status }: { status: string }) => !ENDED.includes(status));
    assert.deepEqual(open, []);
    assert.deepEqual(
      flow.tasks.map(({ subtask_id, status }: Record<string, string>) => `${subtask_id} ${status}`),
      ['a completed', 'early cancelled'],
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
