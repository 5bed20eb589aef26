import assert from 'node:assert/strict';
import { LIMITS } from '../../core/limits.ts';
import type { TestApi } from '../support/api.ts';
import { startTestService } from '../support/service.ts';
import { startFakeAnthropic, type AnthropicRequest } from '../support/fake-anthropic.ts';
import type { FakeServer } from '../support/fake-http.ts';
import { waitUntil } from '../support/wait-until.ts';

const ENDED = ['completed', 'failed', 'cancelled'];

describe('workflows', () => {
  let api: TestApi;
  let model: FakeServer;
  let key: string;
  let agent: string;
  let other: string;
  /** What the model answers to a brief; undefined is a model that thinks for ever. */
  let answer: (brief: string) => string | undefined;
  /** What the model waits for. */
  let waits: Promise<void> | undefined;

  const briefOf = (request: AnthropicRequest) => JSON.stringify(request.messages[0]?.content);
  const make = async (path: string, body: unknown, expected = 202) => {
    const { status, json, text } = await api.call('POST', path, { key, body });
    assert.equal(status, expected, text);
    return json;
  };
  const read = async (path: string) => (await api.call('GET', path, { key })).json;
  const ended = async (id: string, path = 'workflows') => {
    await waitUntil(`an end in ${path}`, async () => ENDED.includes((await read(`/v1/${path}/${id}`)).status));
    return read(`/v1/${path}/${id}`);
  };
  const statuses = (workflow: { tasks: { subtask_id: string; status: string }[] }) =>
    Object.fromEntries(workflow.tasks.map(({ subtask_id, status }) => [subtask_id, status]));
  const subtask = (id: string, dependencies: string[] = [], more = {}) => ({
    id,
    description: `Do ${id}.`,
    dependencies,
    ...more,
  });
  const start = (subtasks: unknown[], more = {}) =>
    make('/v1/workflows', {
      name: 'test',
      agent_id: agent,
      input: { user_query: 'What is it?' },
      definition: { subtasks, success_criteria: 'It is said.' },
      ...more,
    });

  before(async () => {
    model = await startFakeAnthropic(async (request) => {
      await waits;
      const text = answer(briefOf(request));
      const input = { question: 'Which one?' };
      if (text === 'ASK') return { content: [{ type: 'tool_use', id: 'toolu_ask', name: 'ask_user', input }] };
      return text === undefined ? { content: [], hang: true } : { content: [{ type: 'text', text }] };
    });
    api = await startTestService({ model });
    ({ key } = await api.newTenant());
    ({ id: agent } = await make('/v1/agents', { name: 'worker' }, 201));
    const capabilities = [{ skill_name: 'law', proficiency: 0.9 }];
    ({ id: other } = await make('/v1/agents', { name: 'lawyer', capabilities }, 201));
  });
  after(() => api.close());
  beforeEach(() => {
    model.requests.length = 0;
    waits = undefined;
    answer = (brief) => `done: ${/Do (\w+)\./.exec(brief)?.[1] ?? 'nothing'}`;
  });

  it('gives each subtask its description and the results of what it depends on, and nothing else', async () => {
    const { id, status } = await start([subtask('a'), subtask('b'), subtask('c', ['a', 'b']), subtask('d', ['c'])]);
    assert.equal(status, 'created');
    const workflow = await ended(id);
    assert.equal(workflow.status, 'completed');
    assert.equal(workflow.result, 'done: d');
    assert.deepEqual(statuses(workflow), { a: 'completed', b: 'completed', c: 'completed', d: 'completed' });
    const briefs = model.requests
      .filter(
        ({ body }) => !(body as unknown as AnthropicRequest).tools?.some(({ name }) => name.startsWith('submit_')),
      )
      .map(({ body }) => JSON.parse(briefOf(body as AnthropicRequest)))
      .map(textsOf)
      .toSorted();
    assert.deepEqual(briefs, [
      'Do a.',
      'Do b.',
      'Do c.\n\nResult of a:\ndone: a\n\nResult of b:\ndone: b',
      'Do d.\n\nResult of c:\ndone: c',
    ]);
  });

  it('shows its run with its children, which have threads of their own', async () => {
    const { id } = await start([subtask('a'), subtask('b', ['a'])]);
    const { tasks } = await ended(id);
    const run = await read(`/v1/runs/${id}`);
    assert.deepEqual([run.kind, run.status, run.output.message, run.depth], ['workflow', 'completed', 'done: b', 0]);
    const tree = await read(`/v1/runs/${id}/tree`);
    assert.deepEqual(
      tree.children.map((child: { run_id: string }) => child.run_id),
      tasks.map((task: { run_id: string }) => task.run_id),
    );
    const { runs } = await read(`/v1/runs?parent=${id}`);
    assert.equal(runs.length, 2);
    for (const child of runs) {
      assert.deepEqual([child.parent_run_id, child.root_run_id, child.depth], [id, id, 1]);
      assert.notEqual(child.thread_id, run.thread_id);
    }
    assert.equal((await read(`/v1/runs?root=${id}`)).runs.length, 3);
    const { events } = await read(`/v1/runs/${id}/events?limit=200`);
    const types = events
      .map(({ type }: { type: string }) => type)
      .filter((type: string) => /^(task|workflow)\./.test(type));
    assert.deepEqual(types, [
      'workflow.planned',
      'task.assigned',
      'task.completed',
      'task.assigned',
      'task.completed',
      'workflow.concluded',
    ]);
  });

  it('counts what its children and its planner have used as its own', async () => {
    const { id } = await start([subtask('a'), subtask('b', ['a'])]);
    const { usage } = await ended(id);
    const { children, ...run } = await read(`/v1/runs/${id}/tree`);
    const sum = children.reduce(
      (all: number, child: { usage: { tokens_in: number } }) => all + child.usage.tokens_in,
      0,
    );
    assert.ok(sum > 0);
    const own = model.requests.filter(({ body }) =>
      (body as unknown as AnthropicRequest).tools?.some(({ name }) => name.startsWith('submit_')),
    );
    assert.ok(own.length > 0);
    assert.equal(usage.tokens_in, sum + own.length * 10);
    assert.deepEqual(run.usage, usage);
    assert.ok(usage.cost_usd === null || usage.cost_usd > 0);
  });

  it('says which subtask waits for whom, while the others go on', async () => {
    const { id: asker } = await make('/v1/agents', { name: 'asker', tools: ['ask_user'] }, 201);
    const reply = answer;
    let asked = 0;
    answer = (brief) => (/Do wait/.test(brief) && asked++ === 0 ? 'ASK' : reply(brief));
    const { id } = await start([subtask('wait', [], { agent: 'asker' }), subtask('go')]);
    await waitUntil('go is done and the other waits', async () => {
      const { tasks } = await read(`/v1/workflows/${id}`);
      return tasks[1].status === 'completed' && tasks[0].waiting_for !== undefined;
    });
    const workflow = await read(`/v1/workflows/${id}`);
    const [waiting] = workflow.tasks;
    assert.deepEqual([workflow.status, waiting.status, waiting.waiting_for.type], ['executing', 'in_progress', 'user']);
    assert.equal(waiting.waiting_for.question, 'Which one?');
    const { type, name, run_id } = workflow.waiting_for;
    assert.deepEqual([type, name, run_id], ['child', 'wait', waiting.run_id]);
    assert.deepEqual((await read(`/v1/runs/${id}`)).waiting_for, workflow.waiting_for);
    assert.equal((await read(`/v1/tasks/${waiting.id}`)).waiting_for.type, 'user');
    assert.equal((await read(`/v1/tasks?workflow_id=${id}`)).tasks[1].waiting_for.type, 'user');
    const tree = await read(`/v1/runs/${id}/tree`);
    assert.deepEqual(
      tree.children.map((child: { waiting_for?: { type: string } }) => child.waiting_for?.type),
      ['user', undefined],
    );
    await make(`/v1/runs/${run_id}/resume`, { answer: 'This one.' }, 200);
    const done = await ended(id);
    assert.deepEqual([done.status, done.waiting_for, done.tasks[0].waiting_for], ['completed', undefined, undefined]);
    await api.call('DELETE', `/v1/agents/${asker}`, { key });
  });

  it('refuses a circle with the way around it, and what is named twice or not at all', async () => {
    const refused = async (subtasks: unknown[], more = {}) => {
      const body = { name: 'x', input: { user_query: 'x' }, definition: { subtasks }, ...more };
      const { status, json } = await api.call('POST', '/v1/workflows', { key, body });
      assert.equal(status, 422, JSON.stringify(json));
      return json;
    };
    const circle = await refused([subtask('a', ['c']), subtask('b', ['a']), subtask('c', ['b'])]);
    assert.match(circle.detail, /a → c → b → a/);
    assert.equal(circle.errors[0].path, 'body.definition.subtasks.0.dependencies');
    assert.match((await refused([subtask('a', ['z'])])).errors[0].message, /z/);
    assert.equal((await refused([subtask('a'), subtask('a')])).errors[0].path, 'body.definition.subtasks.1.id');
    assert.equal(
      (await refused([subtask('a', [], { agent: 'nobody' })])).errors[0].path,
      'body.definition.subtasks.0.agent',
    );
  });

  it('takes a subtask that depends on hundreds, and refuses a plan with more dependencies than can be followed', async () => {
    const many = Array.from({ length: 150 }, (_, n) => subtask(`s${n}`));
    const names = many.map(({ id }) => id);
    const { id } = await start([...many, subtask('last', names)], { agent_id: other });
    await api.call('POST', `/v1/runs/${id}/cancel`, { key, body: {} });
    const dense = Array.from({ length: 150 }, (_, n) => subtask(`t${n}`, names.slice(0, 140)));
    const body = { name: 'x', input: { user_query: 'x' }, definition: { subtasks: [...many, ...dense] } };
    const { status, json } = await api.call('POST', '/v1/workflows', { key, body });
    assert.deepEqual([status, json.errors[0].path], [422, 'body.definition.subtasks']);
  });

  it('takes no further task where it has as many as a plan may', async () => {
    answer = () => undefined;
    const length = LIMITS.subtasksPerPlan - 1;
    const { id } = await start(Array.from({ length }, (_, at) => subtask(`n${at}`, at ? [`n${at - 1}`] : [])));
    await make('/v1/tasks', { workflow_id: id, description: 'Do the last.' });
    assert.match((await make('/v1/tasks', { workflow_id: id, description: 'Do more.' }, 422)).detail, /1000 tasks/);
    assert.equal((await read(`/v1/workflows/${id}`)).tasks.length, LIMITS.subtasksPerPlan);
    await make(`/v1/runs/${id}/cancel`, {});
  });

  it('gives work to whoever has the skills, or is named', async () => {
    const skilled = { required_capabilities: ['law'] };
    const { id } = await start([subtask('a', [], skilled), subtask('b', [], { agent: 'lawyer' }), subtask('c')]);
    const { tasks } = await ended(id);
    const assigned = tasks.map(
      ({ assignment }: { assignment: { assigned_agent_id: string } }) => assignment.assigned_agent_id,
    );
    assert.deepEqual(assigned, [other, other, agent]);
    const { id: hopeless } = await start([subtask('a', [], { required_capabilities: ['magic'] })]);
    const failed = await ended(hopeless);
    assert.deepEqual([failed.status, failed.error.code], ['failed', 'SubtaskFailed']);
    assert.match(
      failed.error.message,
      /subtask a .*InsufficientAgents\): No active agent has what the task requires\.$/,
    );
  });

  it('says of an agent that was deprecated meanwhile that nobody does what was for it', async () => {
    let goOn = (): void => undefined;
    waits = new Promise((resolve) => (goOn = resolve));
    const { id: leaving } = await make('/v1/agents', { name: 'leaving' }, 201);
    const skilled = { agent: 'leaving', required_capabilities: ['magic'] };
    const named = await start([subtask('a'), subtask('b', ['a'], { agent: 'leaving' })]);
    const open = await start([subtask('a'), subtask('b', ['a'], skilled)]);
    assert.equal((await api.call('DELETE', `/v1/agents/${leaving}`, { key })).status, 204);
    goOn();
    for (const [{ id }, more] of [
      [named, ''],
      [open, ' No other active agent has what the task requires.'],
    ] as const) {
      const { error } = await ended(id);
      const message = `The subtask b has failed (InsufficientAgents): The agent leaving is deprecated.${more}`;
      assert.deepEqual(error, { code: 'SubtaskFailed', message });
    }
  });

  it('waits while its agent is suspended, and goes on when that is lifted', async () => {
    const suspend = async (suspended: boolean) => {
      const { status, text } = await api.call('PATCH', `/v1/agents/${other}`, { key, body: { suspended } });
      assert.equal(status, 200, text);
    };
    const status = async (id: string) => (await read(`/v1/workflows/${id}`)).status;
    await suspend(true);
    const { id } = await start([subtask('a')], { agent_id: other });
    await waitUntil('it stands', async () => (await status(id)) === 'planning');
    await suspend(false);
    assert.equal((await ended(id)).status, 'completed');
  });

  it('keeps what nobody but a suspended agent can do, and has it done when that is lifted', async () => {
    const suspend = async (suspended: boolean) => {
      const { status } = await api.call('PATCH', `/v1/agents/${other}`, { key, body: { suspended } });
      assert.equal(status, 200);
    };
    await suspend(true);
    const { id } = await start([subtask('a'), subtask('b', ['a'], { required_capabilities: ['law'] })]);
    const named = await start([subtask('c', [], { agent: other })]);
    await waitUntil('a is done', async () => statuses(await read(`/v1/workflows/${id}`))['a'] === 'completed');
    await waitUntil('both are looked at', async () => (await read(`/v1/workflows/${named.id}`)).status !== 'created');
    assert.deepEqual(statuses(await read(`/v1/workflows/${id}`)), { a: 'completed', b: 'pending' });
    assert.deepEqual(statuses(await read(`/v1/workflows/${named.id}`)), { c: 'pending' });
    await suspend(false);
    assert.deepEqual([(await ended(id)).status, (await ended(named.id)).status], ['completed', 'completed']);
  });

  it('goes by levels where it is asked to', async () => {
    const { id } = await start([subtask('a'), subtask('b', ['a']), subtask('c', ['b'])], { execution: 'levels' });
    assert.equal((await ended(id)).status, 'completed');
    const { events } = await read(`/v1/runs/${id}/events?types=workflow.level_started`);
    assert.deepEqual(
      events.map(({ payload }: { payload: { level: number } }) => payload.level),
      [0, 1, 2],
    );
  });

  it('cancels everything that is below it', async () => {
    answer = (brief) => (/Do a/.test(brief) ? 'done' : undefined);
    const { id } = await start([subtask('a'), subtask('b'), subtask('c', ['b'])]);
    await waitUntil('a is done', async () => {
      const states = statuses(await read(`/v1/workflows/${id}`));
      return states['a'] === 'completed' && states['b'] === 'in_progress';
    });
    await make(`/v1/runs/${id}/cancel`, {});
    const workflow = await read(`/v1/workflows/${id}`);
    assert.equal(workflow.status, 'cancelled');
    assert.deepEqual(statuses(workflow), { a: 'completed', b: 'cancelled', c: 'cancelled' });
    const { runs } = await read(`/v1/runs?root=${id}`);
    assert.ok(runs.every(({ status }: { status: string }) => ENDED.includes(status)));
  });

  it('submits tasks by themselves, cancels them, and holds them to their deadlines', async () => {
    const alone = await make('/v1/tasks', {
      description: 'Do it.',
      input: { user_query: 'Who?', context: { region: 'north' } },
      requirements: { required_capabilities: ['law'] },
    });
    assert.equal(alone.status, 'pending');
    assert.equal(alone.progress, null);
    const inMs = Date.parse(alone.estimated_completion) - Date.parse(alone.created_at);
    assert.ok(inMs > 0 && inMs <= 30_000, `${inMs}`);
    const done = await ended(alone.id, 'tasks');
    assert.deepEqual([done.output.result, done.output.confidence], ['done: it', null]);
    assert.deepEqual([done.progress.run_status, done.progress.steps], ['completed', 1]);
    assert.deepEqual(done.execution, { status: 'completed', retry_count: 0, last_error: null });
    answer = () => '{"found": 3, "confidence": 0.85}';
    const sure = await make('/v1/tasks', { description: 'Do it.', requirements: { required_capabilities: ['law'] } });
    assert.equal((await ended(sure.id, 'tasks')).output.confidence, 0.85);
    assert.ok(!(await read('/v1/workflows')).workflows.some(({ id }: { id: string }) => id === alone.workflow_id));

    answer = () => undefined;
    const late = await make('/v1/tasks', {
      description: 'Do late.',
      requirements: { deadline: new Date(Date.now() + 300).toISOString() },
    });
    const failed = await ended(late.id, 'tasks');
    assert.deepEqual([failed.status, failed.error.code], ['failed', 'deadline']);

    const unwanted = await make('/v1/tasks', { description: 'Do not.' });
    assert.equal((await make(`/v1/tasks/${unwanted.id}/cancel`, {})).status, 'cancelled');
    assert.equal((await make(`/v1/tasks/${unwanted.id}/cancel`, {}, 200)).status, 'cancelled');
    await make(`/v1/tasks/${done.id}/cancel`, {}, 409);
  });

  it('shows of a task the deadline among what it requires, and the task that it is a part of', async () => {
    const deadline = new Date(Date.now() + 3_600_000).toISOString();
    const whole = await make('/v1/tasks', { description: 'Do it.', parent_task_id: null, requirements: { deadline } });
    assert.deepEqual([whole.requirements, whole.deadline, whole.parent_task_id], [{ deadline }, deadline, null]);
    const part = await make('/v1/tasks', { description: 'Do a part of it.', parent_task_id: whole.id });
    assert.equal((await read(`/v1/tasks/${part.id}`)).parent_task_id, whole.id);
    await make('/v1/tasks', { description: 'Do it.', parent_task_id: whole.run_id ?? whole.workflow_id }, 404);
  });

  it('is done by the versions of agents that there were when it began', async () => {
    const { id: pinned } = await make('/v1/agents', { name: 'pinned' }, 201);
    let goOn: () => void = () => undefined;
    waits = new Promise((resolve) => (goOn = resolve));
    const { id } = await start([subtask('a'), subtask('b', ['a'])], { agent_id: pinned });
    await waitUntil('the first is begun', async () => model.requests.length > 0);
    const patched = await api.call('PATCH', `/v1/agents/${pinned}`, { key, body: { system_prompt: 'Anew.' } });
    assert.equal(patched.json.current_version ?? patched.json.version, '1.1.0', patched.text);
    goOn();
    const workflow = await ended(id);
    assert.equal(workflow.status, 'completed');
    for (const { run_id } of workflow.tasks)
      assert.equal((await read(`/v1/runs/${run_id}`)).agent_version, '1.0.0', JSON.stringify(workflow.tasks));
    const next = await ended((await start([subtask('a')], { agent_id: pinned })).id);
    assert.equal((await read(`/v1/runs/${next.tasks[0].run_id}`)).agent_version, '1.1.0');
  });

  it('is tried again from what it has finished, none of which is repeated', async () => {
    const subtasks = [
      subtask('a'),
      subtask('b', ['a'], { required_capabilities: ['cooking'] }),
      subtask('c', ['a', 'b']),
    ];
    const { id } = await start(subtasks);
    const failed = await ended(id);
    assert.deepEqual([failed.status, statuses(failed)], ['failed', { a: 'completed', b: 'failed', c: 'cancelled' }]);
    const { id: cook } = await make('/v1/agents', { name: 'cook', capabilities: [{ skill_name: 'cooking' }] }, 201);
    model.requests.length = 0;
    const made = await make(`/v1/runs/${id}/retry`, {});
    assert.deepEqual([made.retried_from, made.thread_id], [id, (await read(`/v1/runs/${id}`)).thread_id]);
    const again = await ended(made.new_run_id);
    assert.deepEqual([again.status, again.result], ['completed', 'done: c']);
    assert.deepEqual(statuses(again), { a: 'completed', b: 'completed', c: 'completed' });
    assert.equal(again.tasks[0].run_id, failed.tasks[0].run_id, 'the child that did it');
    assert.ok(!model.requests.some(({ body }) => /"text":"Do a\./.test(JSON.stringify(body))), 'a is not done again');
    const run = await read(`/v1/runs/${made.new_run_id}`);
    assert.deepEqual([run.kind, run.retried_from, run.forked_from_run_id], ['workflow', id, id]);
    await make(`/v1/runs/${id}/retry`, {}, 409);
    await make(`/v1/runs/${made.new_run_id}/retry`, {}, 409);
    const erase = (run_id: string) => api.call('DELETE', `/v1/runs/${run_id}`, { key });
    assert.equal((await erase(failed.tasks[0].run_id)).json.code, 'has_dependents');
    assert.equal((await erase(id)).json.code, 'has_dependents');
    await api.call('DELETE', `/v1/agents/${cook}`, { key });
  });

  it('has a checkpoint saved while its children are at work, and goes on as if there were none', async () => {
    let release = () => {};
    const released = new Promise<void>((resolve) => (release = resolve));
    waits = released;
    const { id } = await start([subtask('a'), subtask('b', ['a'])]);
    await waitUntil('a is under way', () => Promise.resolve(model.requests.length > 0));
    const { id: saved } = await make(`/v1/runs/${id}/checkpoints`, {}, 201);
    assert.deepEqual(
      (await read(`/v1/runs/${id}/checkpoints`)).checkpoints.map((each: { id: string }) => each.id),
      [saved],
    );
    release();
    assert.deepEqual(statuses(await ended(id)), { a: 'completed', b: 'completed' });
    const refused = await make(`/v1/runs/${id}/replay`, { checkpoint_id: saved }, 400);
    assert.equal(refused.errors[0].path, 'body.checkpoint_id');
  });

  it('keeps the names of its subtasks where the runs of these are erased, and their places where it is erased itself', async () => {
    const { id } = await start([subtask('a'), subtask('b', ['a'])]);
    const { tasks } = await ended(id);
    const names = async () => {
      const flow = await read(`/v1/workflows/${id}`);
      return flow.tasks.map((task: Record<string, unknown>) => [task['subtask_id'], task['description']]);
    };
    const erase = async (run: string) => {
      const { status, text } = await api.call('DELETE', `/v1/runs/${run}?dependents=true`, { key });
      assert.equal(status, 202, text);
    };
    await erase(tasks[0].run_id);
    assert.deepEqual(await names(), [
      ['a', ''],
      ['b', 'Do b.'],
    ]);
    assert.equal((await read(`/v1/tasks/${tasks[0].id}`)).subtask_id, 'a');
    await erase(id);
    assert.deepEqual(await names(), [
      ['task-1', ''],
      ['task-2', ''],
    ]);
    const listed = await read(`/v1/tasks?workflow_id=${id}`);
    assert.deepEqual(listed.tasks.map((task: { subtask_id: string }) => task.subtask_id).toSorted(), [
      'task-1',
      'task-2',
    ]);
  });

  it('does nothing in place of a brief that is erased, whoever wants it tried again', async () => {
    answer = () => undefined;
    const begin = async (on_subtask_failure: string, withinMs = 200): Promise<{ id: string; late: string }> => {
      const { id } = await start([subtask('a')], { on_subtask_failure });
      const { id: late } = await make('/v1/tasks', {
        workflow_id: id,
        description: 'Do it soon.',
        requirements: { deadline: new Date(Date.now() + withinMs).toISOString() },
      });
      await waitUntil('it is late', async () => (await read(`/v1/tasks/${late}`)).status === 'failed');
      const { run_id } = await read(`/v1/tasks/${late}`);
      // Late before it had begun, on a busy machine.
      if (run_id === null) return begin(on_subtask_failure, withinMs * 5);
      assert.equal((await api.call('DELETE', `/v1/runs/${run_id}`, { key })).status, 202);
      return { id, late };
    };
    const asking = await begin('ask');
    const { approvals } = await read('/v1/approvals?status=pending');
    const about = approvals.find((each: { run_id: string }) => each.run_id === asking.id);
    const edit = { decision: 'edit', arguments: { subtask: 'another' } };
    const refused = await make(`/v1/approvals/${about.id}`, edit, 422);
    assert.match(refused.detail, /must be one of approve, deny for an approval of a subtask/);
    await make(`/v1/approvals/${about.id}`, { decision: 'approve' }, 200);
    await waitUntil(
      'it has failed anew',
      async () => (await read(`/v1/tasks/${asking.late}`)).error?.code === 'erased',
    );
    assert.equal((await read(`/v1/tasks/${asking.late}`)).status, 'failed');
    assert.equal((await ended(asking.id)).status, 'failed', 'nobody is asked again');
    const failing = await begin('fail');
    assert.equal((await ended(failing.id)).status, 'failed');
    for (const [path, body] of [
      ['retry', {}],
      ['replay', { checkpoint_id: 'start' }],
    ] as const) {
      assert.equal((await make(`/v1/runs/${failing.id}/${path}`, body, 409)).code, 'erased');
    }
  });

  it('is replayed from the record of its children, which does nothing again unless it is to', async () => {
    const { id } = await start([subtask('a'), subtask('b', ['a'])]);
    const first = await ended(id);
    const replay = async (body: Record<string, unknown>) => {
      model.requests.length = 0;
      const made = await make(`/v1/runs/${id}/replay`, { checkpoint_id: 'start', ...body });
      const done = await ended(made.new_run_id);
      assert.deepEqual([done.status, done.result], ['completed', first.result]);
      const own = model.requests.filter(({ body: asked }) => /submit_/.test(JSON.stringify(asked['tools'])));
      return { made, done, planner: own.length, workers: model.requests.length - own.length };
    };
    const recorded = await replay({ mode: 'recorded' });
    assert.deepEqual([recorded.planner, recorded.workers, recorded.made.effects], [0, 0, []]);
    assert.notEqual(recorded.made.thread_id, (await read(`/v1/runs/${id}`)).thread_id);
    assert.equal((await read(`/v1/runs?parent=${recorded.made.new_run_id}`)).runs.length, 0);
    const live = await replay({ mode: 'live' });
    assert.ok(live.planner > 0 && live.workers === 0);
    assert.equal((await replay({ rerun_effects: true })).workers, 2);
    await make(`/v1/runs/${id}/replay`, { checkpoint_id: 'start', modified_state: { iteration: 1 } }, 400);
    await make(`/v1/runs/${id}/replay`, { checkpoint_id: 'start', config: { max_turns: 1 } }, 400);
    await make(`/v1/runs/${id}/replay`, { checkpoint_id: id }, 400);
  });

  it('is created once for each Idempotency-Key', async () => {
    const body = { name: 'once', input: { user_query: 'x' }, definition: { subtasks: [subtask('a')] } };
    const headers = { 'idempotency-key': 'one' };
    const first = await api.call('POST', '/v1/workflows', { key, body, headers });
    const second = await api.call('POST', '/v1/workflows', { key, body, headers });
    assert.deepEqual([first.status, second.status, second.json], [202, 202, first.json]);
    await ended(first.json.id);
  });
});

function textsOf(content: unknown): string {
  if (typeof content === 'string') return content;
  return (content as { text?: string }[]).map(({ text }) => text ?? '').join('');
}
