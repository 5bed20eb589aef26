/** Agents that have others do a part of their work, over HTTP. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { startTestApi, type TestApi } from '../support/api.ts';
import { startFakeAnthropic, type AnthropicReply, type AnthropicRequest } from '../support/fake-anthropic.ts';
import type { FakeServer } from '../support/fake-http.ts';
import { waitUntil } from '../support/wait-until.ts';
import { listLostJoins } from '../../db/task-upkeep.ts';
import { reconcile } from '../../modules/run-log/reconcile.ts';
import { advanceDelegations } from '../../modules/workflows/advance-delegations.ts';
import { startWorkers, type Workers } from '../../workers/start-workers.ts';

const FIRST_ID = '00000000-0000-0000-0000-000000000000';
const ENDED = ['completed', 'failed', 'cancelled'];

interface Use {
  name: string;
  input: Record<string, unknown>;
}

interface Node {
  run_id: string;
  agent_id: string;
  status: string;
  waiting_for?: { type: string; run_id?: string };
  children: Node[];
}

interface Planned {
  budget?: number | undefined;
  children: Planned[];
}

interface Spent {
  run_id: string;
  status: string;
  usage: { tokens_in: number; tokens_out: number };
  children: Spent[];
}

describe('delegation', () => {
  let api: TestApi;
  let workers: Workers;
  let model: FakeServer;
  let key: string;
  let tenant: string;
  const agents: Record<string, string> = {};
  /** What an agent does first, by its name, with its brief; a string is its answer, undefined is to think for ever. */
  let first: Record<string, (brief: string) => Use[] | string | undefined>;

  const make = async (path: string, body: unknown, expected = 201) => {
    const { status, json, text } = await api.call('POST', path, { key, body });
    assert.equal(status, expected, text);
    return json;
  };
  const read = async (path: string) => (await api.call('GET', path, { key })).json;
  const delegate = (agent: string, description: string, more = {}): Use => ({
    name: 'delegate',
    input: { agent, description, ...more },
  });
  const start = async (agent: string, message: string, config = {}): Promise<string> => {
    const { run_id } = await make(`/v1/agents/${agents[agent]}/runs`, { input: { message }, config }, 202);
    return run_id;
  };
  const ended = async (run: string) => {
    await waitUntil('the run ends', async () => ENDED.includes((await read(`/v1/runs/${run}`)).status));
    return read(`/v1/runs/${run}`);
  };
  const tree = async (run: string): Promise<Node> => read(`/v1/runs/${run}/tree`);

  function reply({ system, messages }: AnthropicRequest): AnthropicReply {
    const name = /I am (\w+)/.exec(JSON.stringify(system))?.[1] ?? '';
    const results = messages.flatMap(({ content }) =>
      typeof content === 'string' ? [] : content.filter(({ type }) => type === 'tool_result'),
    );
    if (results.length > 0) {
      const said = results.map(({ content }) => JSON.stringify(content)).join(' + ');
      return { content: [{ type: 'text', text: `${name} made of ${said}` }] };
    }
    const does = first[name]?.(JSON.stringify(messages[0]?.content));
    if (does === undefined) return { content: [], hang: true };
    if (typeof does === 'string') return { content: [{ type: 'text', text: does }] };
    return { content: does.map((use, place) => ({ type: 'tool_use', id: `toolu_${place}`, ...use })) };
  }

  before(async () => {
    model = await startFakeAnthropic(reply);
    api = await startTestApi(undefined, {
      env: { ANTHROPIC_API_KEY: 'sk-test', ANTHROPIC_BASE_URL: model.url },
      forWorkers: true,
    });
    workers = await startWorkers(api.context);
    ({ key, id: tenant } = await api.newTenant());
    const tools: Record<string, string[]> = { lead: ['delegate'], middle: ['delegate'], asker: ['ask_user'] };
    for (const name of ['boss', 'lead', 'middle', 'north', 'south', 'asker']) {
      const capabilities = name === 'south' ? [{ skill_name: 'law' }] : [];
      const body = { name, system_prompt: `I am ${name}.`, tools: tools[name] ?? [], capabilities };
      ({ id: agents[name] = '' } = await make('/v1/agents', body));
    }
  });
  after(async () => {
    await workers.stop(5000);
    await api.close();
    await model.close();
  });
  beforeEach(() => {
    model.requests.length = 0;
    first = {
      north: (brief) => (/once/.test(brief) ? 'north did it' : 'north'),
      south: () => 'south',
      asker: () => [{ name: 'ask_user', input: { question: 'Which?' } }],
    };
  });

  it('gives parts of the work to others, by name or by what they can do, and goes on with what they came to', async () => {
    first['lead'] = () => [
      delegate('north', 'Do it once.', { context: { year: 2026 } }),
      { name: 'delegate', input: { capability: 'law', description: 'Look it up.' } },
    ];
    const run = await ended(await start('lead', 'Do all of it.'));
    assert.equal(run.status, 'completed', JSON.stringify(run));
    assert.match(run.output.message, /north did it.* \+ .*south/);
    const { children } = await tree(run.run_id);
    assert.deepEqual(
      children.map(({ agent_id, status }) => [agent_id, status]),
      [
        [agents['north'], 'completed'],
        [agents['south'], 'completed'],
      ],
    );
    assert.match(run.output.message, new RegExp(children[0]?.run_id ?? 'none'));
    const brief = model.requests.map(({ body }) => JSON.stringify(body)).find((body) => body.includes('I am north'));
    assert.match(
      brief ?? '',
      /Do it once\.\\n\\ncontext:\\n\{\\\\\\"year\\\\\\":2026\}|Do it once\.\\n\\ncontext:\\n\{\\"year\\":2026\}/,
    );
    assert.doesNotMatch(brief ?? '', /Do all of it/);
    const { events } = await read(`/v1/runs/${run.run_id}/events?types=task.assigned,task.completed&limit=50`);
    assert.deepEqual(
      events
        .map(({ type, payload }: { type: string; payload: { reason?: string } }) => [type, payload.reason])
        .slice(0, 2),
      [
        ['task.assigned', 'named'],
        ['task.assigned', 'matched'],
      ],
    );
    assert.equal(events.length, 4);
    assert.equal((await read(`/v1/runs?parent=${run.run_id}`)).runs.length, 2);
  });

  it('parks the branch of a child that waits for a person, and no other', async () => {
    first['lead'] = () => [delegate('asker', 'Ask which.'), delegate('north', 'Do it once.')];
    const id = await start('lead', 'Find out.');
    await waitUntil('one is done and the other waits', async () => {
      const { children } = await tree(id);
      return children[0]?.waiting_for?.type === 'user' && children[1]?.status === 'completed';
    });
    const run = await read(`/v1/runs/${id}`);
    const [child] = (await tree(id)).children;
    assert.deepEqual(
      [run.status, run.waiting_for.type, run.waiting_for.run_id],
      ['awaiting_tool', 'child', child?.run_id],
    );
    const refused = await api.call('POST', `/v1/runs/${id}/resume`, { key, body: { answer: 'x' } });
    assert.equal(refused.status, 409, refused.text);
    await make(`/v1/runs/${child?.run_id}/resume`, { answer: 'That.' }, 200);
    assert.match((await ended(id)).output.message, /asker made of .*That.* \+ .*north did it/);
    assert.equal((await tree(id)).children.length, 2, 'nothing was done twice');
  });

  it('refuses to hand on a brief that it was given itself, at whatever depth, and tells the model why', async () => {
    first['lead'] = () => [delegate('middle', '  do THE  whole thing ')];
    const alone = await ended(await start('lead', 'Do the whole thing!'));
    assert.match(alone.output.message, /very task that you were given/);
    assert.equal((await tree(alone.run_id)).children.length, 0);

    first['lead'] = () => [delegate('middle', 'Do a part.')];
    first['middle'] = () => [delegate('lead', 'Do the whole thing.'), delegate('north', 'Do it once.')];
    const deep = await ended(await start('lead', 'Do the whole thing.'));
    assert.match(deep.output.message, /an agent above you was given/);
    assert.match(deep.output.message, /north did it/);
  });

  it('tells the model whom there is where nobody fits, and goes no deeper than runs may', async () => {
    first['lead'] = () => [
      delegate('nobody', 'Do it.'),
      { name: 'delegate', input: { capability: 'x', description: 'y' } },
    ];
    const { output } = await ended(await start('lead', 'Try.'));
    assert.match(output.message, /There are: .*middle.*north/);
    assert.match(output.message, /No agent has the capability/);

    let depth = 0;
    first['lead'] = () => [delegate('middle', `Part ${(depth += 1)}.`)];
    first['middle'] = () => [delegate('lead', `Part ${(depth += 1)}.`)];
    const deep = await ended(await start('lead', 'Start.'));
    assert.equal(depth, 6);
    assert.match(deep.output.message, /5 levels deep/);
  });

  it('makes tasks of what is delegated, below those that it is part of', async () => {
    first['lead'] = () => [delegate('middle', 'Pass it on.', { context: 'x', max_cost_tokens: 10_000 })];
    first['middle'] = () => [delegate('north', 'Do it once.')];
    const run = await ended(await start('lead', 'Do it all.'));
    const { children } = await tree(run.run_id);
    const { tasks } = await read('/v1/tasks?limit=2');
    const [below, top] = tasks;
    assert.deepEqual(
      [top.parent_run_id, top.parent_task_id, top.workflow_id, top.run_id, top.status],
      [run.run_id, null, null, children[0]?.run_id, 'completed'],
    );
    assert.deepEqual(
      [top.description, top.input, top.requirements],
      ['Pass it on.', { context: 'x' }, { max_cost_tokens: 10_000 }],
    );
    assert.equal(top.assignment.assigned_agent_id, agents['middle']);
    assert.match(top.output.result, /^middle made of .*north did it/);
    assert.ok(top.output.tokens_used > 0);
    assert.deepEqual(top.progress, { run_status: 'completed', steps: 2, tokens_used: top.output.tokens_used });
    assert.deepEqual(
      [below.parent_run_id, below.parent_task_id, below.status],
      [children[0]?.run_id, top.id, 'completed'],
    );
    const { text } = await api.call('POST', `/v1/tasks/${top.id}/cancel`, { key, body: {} });
    assert.match(text, /is completed already/);
    assert.equal((await read(`/v1/tasks/${below.id}`)).description, 'Do it once.');
    await api.call('DELETE', `/v1/runs/${run.run_id}`, { key });
    assert.equal((await read(`/v1/tasks/${top.id}`)).description, '', 'what it was told is erased with the run');
  });

  it('tells the model of a task that somebody cancels, and goes on with the others', async () => {
    first['south'] = () => undefined;
    first['lead'] = () => [delegate('south', 'Think.'), delegate('north', 'Do it once.')];
    const id = await start('lead', 'Do both.');
    const open = async () =>
      (await read('/v1/tasks?status=in_progress')).tasks.find(
        ({ parent_run_id }: { parent_run_id: string }) => parent_run_id === id,
      );
    await waitUntil('one thinks, the other is done', async () => {
      const states = (await tree(id)).children.map(({ status }) => status);
      return states.includes('completed') && (await open())?.description === 'Think.';
    });
    const task = await open();
    await make(`/v1/tasks/${task.id}/cancel`, {}, 202);
    await make(`/v1/tasks/${task.id}/cancel`, {}, 200);
    assert.match((await ended(id)).output.message, /was cancelled.* \+ .*north did it/);
    const { status, run_id } = await read(`/v1/tasks/${task.id}`);
    assert.deepEqual([status, (await read(`/v1/runs/${run_id}`)).status], ['cancelled', 'cancelled']);
  });

  it('gives no agent more tasks at a time than it takes, and one that waits for it can be cancelled', async () => {
    const made = { name: 'single', system_prompt: 'I am single.', constraints: { max_concurrent_tasks: 1 } };
    const { id: single } = await make('/v1/agents', made);
    agents['single'] = single;
    let most = 0;
    const now = async () =>
      (await read('/v1/tasks?status=in_progress')).tasks.filter(
        ({ assignment }: { assignment: { assigned_agent_id: string } | null }) =>
          assignment?.assigned_agent_id === single,
      ).length;
    first['single'] = (brief) => (/forever/.test(brief) ? undefined : 'single');
    first['lead'] = () => ['one', 'two', 'three'].map((part) => delegate('single', `Do ${part}.`));
    const id = await start('lead', 'Do all of them.');
    await waitUntil('it ends', async () => {
      most = Math.max(most, await now());
      return ENDED.includes((await read(`/v1/runs/${id}`)).status);
    });
    assert.match((await ended(id)).output.message, /single.* \+ .*single.* \+ .*single/);
    assert.ok(most <= 1, `${most}`);

    first['lead'] = () => [delegate('single', 'Do it forever.'), delegate('single', 'Do it later.')];
    const stuck = await start('lead', 'Do two.');
    const ofRun = async (status: string) =>
      (await read(`/v1/tasks?status=${status}`)).tasks.filter(
        ({ parent_run_id }: { parent_run_id: string }) => parent_run_id === stuck,
      );
    await waitUntil('one waits', async () => (await ofRun('pending')).length === 1);
    const [working] = await ofRun('in_progress');
    const [waiting] = await ofRun('pending');
    await make(`/v1/tasks/${waiting.id}/cancel`, {}, 202);
    await make(`/v1/runs/${stuck}/cancel`, {}, 202);
    assert.equal((await read(`/v1/tasks/${working.id}`)).status, 'cancelled');
    assert.equal(await now(), 0, 'its place is free');
  });

  it('cancels what it has delegated with itself', async () => {
    first['north'] = () => undefined;
    first['lead'] = () => [delegate('middle', 'Pass it on.')];
    first['middle'] = () => [delegate('north', 'Think.'), delegate('south', 'Answer.')];
    const id = await start('lead', 'Do it.');
    await waitUntil(
      'the last one thinks',
      async () => (await tree(id)).children[0]?.children[1]?.status === 'completed',
    );
    await make(`/v1/runs/${id}/cancel`, {}, 202);
    const all = await tree(id);
    assert.deepEqual(
      [all.status, all.children[0]?.status, ...(all.children[0]?.children ?? []).map(({ status }) => status)],
      ['cancelled', 'cancelled', 'cancelled', 'completed'],
    );
  });

  it('cancels what was delegated in a turn that is interrupted', async () => {
    first['north'] = () => undefined;
    first['lead'] = () => [delegate('north', 'Think.')];
    const chat = { message: 'Do it.', agent_id: agents['lead'], user_id: 'ada', autonomy_level: 2 };
    const { session_id } = await make('/agent/chat', chat, 202);
    const [run] = (await read(`/v1/runs?thread=${session_id}`)).runs;
    const child = async () => (await tree(run.run_id)).children[0]?.status;
    await waitUntil('somebody thinks', async () => (await child()) === 'executing');
    await make('/agent/interrupt', { session_id }, 200);
    await waitUntil('nobody does any more', async () => (await child()) === 'cancelled');
    const [task] = (await read('/v1/tasks?limit=1')).tasks;
    assert.deepEqual([task.parent_run_id, task.status], [run.run_id, 'cancelled']);
    await make(`/v1/runs/${run.run_id}/cancel`, {}, 202);
  });

  it('holds children to the tokens that their parent gives them, and to those that it has itself', async () => {
    first['lead'] = () => [delegate('north', 'Do it once.', { max_cost_tokens: 5 })];
    const { output } = await ended(await start('lead', 'Cheap.'));
    assert.match(output.message, /tokens of the task do not suffice/);
    first['lead'] = () => [delegate('north', 'Do it once.')];
    const run = await ended(await start('lead', 'Cheap again.', { budget: { max_tokens: 5000 } }));
    const spent = [run, ...(await tree(run.run_id)).children].reduce(
      (sum, { usage }) => sum + usage.tokens_in + usage.tokens_out,
      0,
    );
    assert.ok(spent <= 5000, `${spent}`);
  });

  it('says of a child that has stopped at a budget whose that was', async () => {
    const { id: poor } = await make('/v1/agents', { name: 'poor' });
    await make('/v1/budgets', {
      name: 'of the poor',
      agent_id: poor,
      period: 'total',
      max_tokens: 1,
    });
    first['lead'] = () => [delegate('poor', 'Do it once.')];
    const { output } = await ended(await start('lead', 'Of another.'));
    assert.match(
      output.message,
      /The budget [\\"]+of the poor[\\"]+ does not suffice\. .* it needs about [\d,]+ tokens, and 1 of 1 is left\./,
    );
    assert.equal((await api.call('DELETE', `/v1/agents/${poor}`, { key })).status, 204);
  });

  it('spends no more than any budget above it, on random trees of children that work at the same time', async () => {
    const shape = fc.letrec<{ node: Planned }>((tie) => ({
      node: fc.record({
        budget: fc.option(fc.integer({ min: 1500, max: 9000 }), { nil: undefined }),
        children: fc.oneof(
          { maxDepth: 3 },
          fc.constant<Planned[]>([]),
          fc.array(tie('node'), { minLength: 1, maxLength: 3 }),
        ),
      }),
    })).node;
    const trees = fc.sample(shape, { numRuns: 5, seed: 42 });
    const plans = new Map<string, Planned>();
    const partsOf = (agent: string) => (brief: string) => {
      const name = /Part (\S+)\./.exec(brief)?.[1] ?? '';
      const children = plans.get(name)?.children ?? [];
      if (children.length === 0) return `did ${name}`;
      return children.map((child, place) => {
        plans.set(`${name}-${place}`, child);
        return delegate(agent, `Part ${name}-${place}.`, child.budget && { max_cost_tokens: child.budget });
      });
    };
    first['lead'] = partsOf('middle');
    first['middle'] = partsOf('lead');
    let bounded = 0;
    for (const [at, tree0] of trees.entries()) {
      const max_tokens = 6000 + at * 4000;
      plans.set(`t${at}`, { ...tree0, budget: max_tokens });
      const root = await ended(await start('lead', `Part t${at}.`, { budget: { max_tokens } }));
      const sumOf = async (node: Spent): Promise<number> => {
        const { turns } = await read(`/v1/runs/${node.run_id}/turns`);
        const name = /Part (\S+)\./.exec(turns[0].input.message)?.[1] ?? '';
        let sum = node.usage.tokens_in + node.usage.tokens_out;
        for (const child of node.children) sum += await sumOf(child);
        const { budget } = plans.get(name) ?? {};
        if (budget !== undefined) bounded += 1;
        assert.ok(sum <= (budget ?? Infinity), `${name} has spent ${sum} of ${budget}`);
        assert.ok(ENDED.includes(node.status), `${name} is ${node.status}`);
        return sum;
      };
      await sumOf(await read(`/v1/runs/${root.run_id}/tree`));
    }
    assert.ok(bounded > trees.length, 'children have budgets of their own');
  });

  it('shows its child in the session that waits for it, from the moment in which there is one', async () => {
    first['lead'] = () => [delegate('asker', 'Ask which.')];
    await workers.stop(5000);
    const { config } = api.context;
    workers = await startWorkers({ ...api.context, config: { ...config, queues: ['turns'] } });
    const said = { message: 'Do it.', user_id: 'ada', agent_id: agents['lead'], autonomy_level: 2 };
    const { session_id } = await make('/agent/chat', said, 202);
    const session = () => read(`/agent/session/${session_id}`);
    await waitUntil('it has delegated', async () => (await session()).waiting_for?.type === 'child');
    const { run_id, waiting_for: before } = await session();
    assert.equal(before.run_id, undefined);
    assert.equal(await advanceDelegations(api.context, { tenantId: tenant, runId: run_id }), 'advanced');
    const { children } = await tree(run_id);
    assert.deepEqual((await session()).waiting_for, { ...before, run_id: children[0]?.run_id });
    assert.deepEqual((await session()).waiting_for, (await read(`/v1/runs/${run_id}`)).waiting_for);
    await workers.stop(5000);
    workers = await startWorkers(api.context);
    await make('/agent/interrupt', { session_id }, 200);
  });

  it('is begun and joined although every job that tells of it is lost', async () => {
    first['lead'] = () => [delegate('north', 'Do it once.'), delegate('south', 'Look it up.')];
    await workers.stop(5000);
    const { queues, config } = api.context;
    const ref = { tenantId: tenant, runId: '' };
    const lose = () => queues.queue('subtasks').obliterate({ force: true });
    const turnsAlone = { ...api.context, config: { ...config, queues: ['turns' as const] } };
    workers = await startWorkers(turnsAlone);
    const id = (ref.runId = await start('lead', 'Lose it.'));
    await waitUntil('it has delegated', async () => (await read(`/v1/runs/${id}`)).status === 'awaiting_tool');
    await lose();
    const isMissing = async () => {
      const rows = await listLostJoins(api.context.db, { quietMs: 0, after: FIRST_ID, limit: 10, embeds: false });
      return rows.filter(({ workflow_id }) => workflow_id === id).length;
    };
    assert.equal(await isMissing(), 2, 'both are found');
    assert.equal(await advanceDelegations(api.context, ref), 'advanced');
    assert.equal(await advanceDelegations(api.context, ref), 'passed');
    assert.equal(await isMissing(), 0);
    // The children are begun; their jobs are lost, and nobody looks at their parent when they end.
    await lose();
    await reconcile(api.context, 0);
    const ends = async () => (await tree(id)).children.map(({ status }) => status).join();
    await waitUntil('the children have ended', async () => (await ends()) === 'completed,completed');
    await lose();
    assert.equal((await read(`/v1/runs/${id}`)).status, 'awaiting_tool');
    assert.equal(await isMissing(), 2, 'both ends are found');
    await reconcile(api.context, 0);
    await workers.stop(5000);
    workers = await startWorkers(api.context);
    assert.match((await ended(id)).output.message, /north did it.* \+ .*south/);
    assert.equal((await tree(id)).children.length, 2);
  });

  it('passes the gate: a person is asked where the level of autonomy says so', async () => {
    first['lead'] = () => [delegate('north', 'Do it once.')];
    const id = await start('lead', 'Carefully.', { autonomy_level: 1 });
    await waitUntil('it asks', async () => (await read(`/v1/runs/${id}`)).waiting_for?.type === 'approval');
    assert.equal((await tree(id)).children.length, 0);
    const { approval_id } = (await read(`/v1/runs/${id}`)).waiting_for;
    await make(`/v1/approvals/${approval_id}`, { decision: 'approve' }, 200);
    assert.match((await ended(id)).output.message, /north did it/);
  });

  it('is how the supervisor of a hierarchical team has its members work', async () => {
    const members = ['north', 'south'].map((name) => ({ agent_id: agents[name], role: `the ${name}` }));
    const { id: team_id } = await make('/v1/teams', {
      name: 'team',
      orchestration_pattern: 'hierarchical',
      supervisor_agent_id: agents['boss'],
      members,
    });
    first['boss'] = (brief) => {
      assert.match(brief, /- north \(the north\)/);
      assert.match(brief, /- south \(the south\): can: law/);
      return [delegate('north', 'Do it once.'), delegate('south', 'Check it.'), delegate('middle', 'Not of the team.')];
    };
    const { id } = await make('/v1/workflows', { name: 'x', team_id, input: { user_query: 'Why?' } }, 202);
    await waitUntil('the workflow ends', async () => ENDED.includes((await read(`/v1/workflows/${id}`)).status));
    const workflow = await read(`/v1/workflows/${id}`);
    assert.equal(workflow.status, 'completed', JSON.stringify(workflow.error));
    assert.match(workflow.result, /^boss made of .*north did it.* \+ .*south.* \+ .*no agent .*middle/);
    const all = await tree(id);
    assert.deepEqual(
      [all.children.length, all.children[0]?.children.map(({ agent_id }) => agent_id)],
      [1, [agents['north'], agents['south']]],
    );
    assert.ok(workflow.usage.tokens_in >= 40, 'grandchildren count');
  });
});
