/** Subtasks begin while their plan is still being written, and nothing is repeated or lost whatever becomes of it. */
import assert from 'node:assert/strict';
import { startTestApi, type TestApi } from '../support/api.ts';
import { startFakeAnthropic, type AnthropicReply, type AnthropicRequest } from '../support/fake-anthropic.ts';
import type { FakeServer } from '../support/fake-http.ts';
import { waitUntil } from '../support/wait-until.ts';
import { isDriven } from '../../db/leases.ts';
import { planOrAnswer } from '../../modules/workflows/planner/plan-and-check.ts';
import { startWorkers, type Workers } from '../../workers/start-workers.ts';

const ENDED = ['completed', 'failed', 'cancelled'];

type Pieces = NonNullable<AnthropicReply['pieces']>;

interface Flow {
  id: string;
  status: string;
  result: string;
  plans: number;
  error?: { code: string };
  tasks: {
    subtask_id: string;
    status: string;
    dependencies: string[];
    retry_count: number;
    run_id: string | null;
    assignment?: { assigned_agent_id: string };
  }[];
}

describe('a plan that is still being written', () => {
  let api: TestApi;
  let workers: Workers;
  let model: FakeServer;
  let key: string;
  let tenantId: string;
  let agent: string;
  let other: string;
  /** Answers of the planner in their order. */
  let plans: (Pieces | { pieces: Pieces; breakOff: true })[];
  let asked: string[];
  /** How often each piece of work was done. */
  let done: Record<string, number>;
  let hangs: string | undefined;
  /** How often each piece of work fails before it is done. */
  let fails: Record<string, number>;
  let id: string;

  const call = async (method: string, path: string, body?: unknown) => {
    const { status, json, text } = await api.call(method, path, { key, body });
    assert.ok(status < 300, text);
    return json;
  };
  const read = (): Promise<Flow> => call('GET', `/v1/workflows/${id}`);
  const begin = async (more = {}) => {
    const body = { name: 'x', agent_id: agent, input: { user_query: 'What is it?' }, ...more };
    ({ id } = await call('POST', '/v1/workflows', body));
  };
  const end = async (): Promise<Flow> => {
    await waitUntil('the workflow ends', async () => ENDED.includes((await read()).status));
    const { runs } = await call('GET', `/v1/runs?root=${id}&limit=200`);
    assert.ok(
      runs.every(({ status }: { status: string }) => ENDED.includes(status)),
      'something was left running',
    );
    return read();
  };
  const states = ({ tasks }: Flow) => tasks.map(({ subtask_id, status }) => `${subtask_id} ${status}`);
  const is = (name: string, status: string) => () =>
    waitUntil(`${name} is ${status}`, async () => states(await read()).includes(`${name} ${status}`));
  const json = (name: string, ...dependencies: string[]) =>
    JSON.stringify({ id: name, description: `Do ${name}.`, dependencies });
  const OPEN = '{"subtasks": [';
  const CLOSE = '], "success_criteria": ""}';

  before(async () => {
    model = await startFakeAnthropic(({ messages, tools }: AnthropicRequest) => {
      const said = JSON.stringify(messages);
      if (tools?.some(({ name }) => name === 'submit_synthesis')) {
        const input = { result: [...said.matchAll(/done: (\w+)/g)].map(([, name]) => name).join(' ') };
        return { content: [{ type: 'tool_use', id: 'toolu_s', name: 'submit_synthesis', input }] };
      }
      if (tools?.some(({ name }) => name === 'submit_plan')) {
        asked.push(said);
        const next = plans.shift() ?? ['{}'];
        const reply = 'pieces' in next ? next : { pieces: next };
        return { content: [{ type: 'tool_use', id: 'toolu_p', name: 'submit_plan', input: {} }], ...reply };
      }
      const name = /Do (\w+)\./.exec(said)?.[1] ?? '?';
      if (name === hangs) return { content: [], hang: true };
      if ((fails[name] ?? 0) > 0) {
        fails[name] = (fails[name] ?? 0) - 1;
        return { error: { status: 400, type: 'invalid_request_error', message: 'It does not go.' } };
      }
      done[name] = (done[name] ?? 0) + 1;
      return { content: [{ type: 'text', text: `done: ${name}` }] };
    });
    api = await startTestApi(undefined, {
      env: { ANTHROPIC_API_KEY: 'sk-test', ANTHROPIC_BASE_URL: model.url },
      forWorkers: true,
    });
    workers = await startWorkers(api.context);
    ({ id: tenantId, key } = await api.newTenant());
    ({ id: agent } = await call('POST', '/v1/agents', { name: 'worker' }));
    ({ id: other } = await call('POST', '/v1/agents', { name: 'other' }));
  });
  after(async () => {
    await workers.stop(5000);
    await api.close();
    await model.close();
  });
  beforeEach(() => {
    plans = [];
    asked = [];
    done = {};
    hangs = undefined;
    fails = {};
  });

  it('has its first subtasks done before it is whole, and goes on from them', async () => {
    plans = [
      [
        OPEN,
        json('a'),
        is('a', 'completed'),
        `, ${json('last', 'later', 'a')}, ${json('b', 'a').slice(0, -3)}`,
        async () => assert.deepEqual(states(await read()), ['a completed'], 'neither is whole with known inputs'),
        json('b', 'a').slice(-3),
        is('b', 'completed'),
        `, ${json('later')}`,
        is('last', 'completed'),
        CLOSE,
      ],
    ];
    await begin();
    const flow = await end();
    assert.deepEqual([flow.status, flow.plans], ['completed', 1], JSON.stringify(flow));
    assert.deepEqual(states(flow).toSorted(), ['a completed', 'b completed', 'last completed', 'later completed']);
    assert.deepEqual(done, { a: 1, b: 1, last: 1, later: 1 });
    assert.match(flow.result, /a/);
    const { events } = await call('GET', `/v1/runs/${id}/events?types=run.status_changed&limit=50`);
    assert.deepEqual(
      events.map(({ payload }: { payload: { to: string } }) => payload.to),
      ['initializing', 'planning', 'executing', 'reflecting', 'completed'],
    );
  });

  it('waits for the whole plan where it goes by levels', async () => {
    plans = [[OPEN, json('a'), async () => assert.deepEqual((await read()).tasks, []), CLOSE]];
    await begin({ execution: 'levels' });
    assert.deepEqual(states(await end()), ['a completed']);
  });

  it('that breaks off is asked for anew, keeps what is the same work, and cancels what is not needed any more', async () => {
    hangs = 'never';
    plans = [
      {
        pieces: [OPEN, `${json('a')}, ${json('never')}`, is('a', 'completed'), is('never', 'in_progress')],
        breakOff: true,
      },
      [OPEN, JSON.stringify({ id: 'one', description: 'Do a.', dependencies: [] }), `, ${json('b', 'one')}`, CLOSE],
    ];
    await begin();
    const flow = await end();
    assert.equal(flow.status, 'completed', JSON.stringify(flow));
    assert.deepEqual(states(flow).toSorted(), ['b completed', 'never cancelled', 'one completed']);
    assert.deepEqual(done, { a: 1, b: 1 });
    const one = flow.tasks.find(({ subtask_id }) => subtask_id === 'one');
    assert.equal(one?.retry_count, 0);
  });

  it('that is whole in the end has each subtask done by the agent that it names, whoever has begun it', async () => {
    const by = (agentName: string) =>
      JSON.stringify({ id: 'a', description: 'Do a.', dependencies: [], agent: agentName });
    plans = [
      { pieces: [OPEN, `${by('worker')}, ${json('b', 'a')}`, is('b', 'completed')], breakOff: true },
      [OPEN, `${by('other')}, ${json('b', 'a')}, ${json('c')}`, CLOSE],
    ];
    await begin();
    const flow = await end();
    assert.equal(flow.status, 'completed', JSON.stringify(flow));
    const whole = flow.tasks.filter(({ status }) => status === 'completed');
    const agents = whole.map(({ subtask_id, assignment }) => [subtask_id, assignment?.assigned_agent_id]);
    assert.deepEqual(Object.fromEntries(agents), { a: other, b: agent, c: agent });
    assert.deepEqual(done, { a: 2, b: 2, c: 1 });
  });

  it('that goes in a circle is asked for once more, and what was begun goes on in the new one', async () => {
    plans = [
      [OPEN, `${json('a')}, ${json('b', 'c')}, ${json('c', 'b')}`, is('a', 'completed'), CLOSE],
      [OPEN, `${json('a')}, ${json('b', 'a')}, ${json('c', 'b')}`, CLOSE],
    ];
    await begin();
    assert.deepEqual(states(await end()).toSorted(), ['a completed', 'b completed', 'c completed']);
    assert.deepEqual(done, { a: 1, b: 1, c: 1 });
    assert.equal(asked.length, 2);
  });

  it('fails with InvalidPlan where no plan comes of it, and leaves nothing running', async () => {
    hangs = 'never';
    const broken = [OPEN, json('never'), is('never', 'in_progress'), `, ${json('b', 'nobody')}`, CLOSE];
    plans = [broken, broken];
    await begin();
    const flow = await end();
    assert.deepEqual([flow.status, flow.error?.code, ...states(flow)], ['failed', 'InvalidPlan', 'never cancelled']);
  });

  it('is taken up by another process where its planner stops, which is told what was begun', async () => {
    let reached: () => void = () => undefined;
    const stopped = new Promise<void>((resolve) => (reached = resolve));
    fails = { hopeless: 99 };
    const begun = [`${json('a')}, ${json('hopeless')}`, is('a', 'completed'), is('hopeless', 'failed')];
    plans = [
      [OPEN, ...begun, async () => reached(), () => new Promise(() => undefined)],
      [OPEN, `${json('a')}, ${json('b', 'a')}`, CLOSE],
    ];
    await begin();
    await stopped;
    await workers.stop(1);
    workers = await startWorkers(api.context);
    const flow = await end();
    assert.deepEqual([flow.status, flow.plans], ['completed', 1], JSON.stringify(flow));
    assert.deepEqual(states(flow).toSorted(), ['a completed', 'b completed', 'hopeless cancelled']);
    assert.deepEqual(done, { a: 1, b: 1 });
    assert.match(asked[1] ?? '', /Under way already.*Do a\..*Has failed for good.*Do hopeless\./);
  });

  it('is asked for once where a second process has seen that it lacks, too, and comes when it is whole', async () => {
    hangs = 'b';
    plans = [[OPEN, `${json('a')}, ${json('b', 'a')}`, CLOSE]];
    await begin();
    await waitUntil('b is under way', async () => {
      const flow = await read();
      return flow.plans === 1 && states(flow).includes('b in_progress');
    });
    const late = { tenantId, runId: id, stop: new AbortController().signal };
    await planOrAnswer(api.context, late, 'plan');
    await planOrAnswer(api.context, late, 'answer');
    assert.equal(asked.length, 1);
    assert.equal((await read()).status, 'executing');
    // Whoever comes for nothing holds nothing.
    await waitUntil('nobody holds it', () =>
      api.context.db.withTenant(tenantId, async (tx) => !(await isDriven(tx, id))),
    );
    await call('POST', `/v1/runs/${id}/cancel`, {});
    assert.equal((await end()).status, 'cancelled');
  });

  it('ends with its workflow where that is cancelled', async () => {
    hangs = 'never';
    let reached: () => void = () => undefined;
    const stopped = new Promise<void>((resolve) => (reached = resolve));
    plans = [
      [OPEN, json('never'), is('never', 'in_progress'), async () => reached(), () => new Promise(() => undefined)],
    ];
    await begin();
    await stopped;
    await call('POST', `/v1/runs/${id}/cancel`, {});
    const flow = await end();
    assert.deepEqual([flow.status, ...states(flow)], ['cancelled', 'never cancelled']);
  });

  it('is paid for in the log, the turn and the dashboard also where its workflow has been cancelled', async () => {
    hangs = 'never';
    let reached: () => void = () => undefined;
    const stopped = new Promise<void>((resolve) => (reached = resolve));
    plans = [
      [OPEN, json('never'), is('never', 'in_progress'), async () => reached(), () => new Promise(() => undefined)],
    ];
    const { id: planner } = await call('POST', '/v1/agents', { name: 'planner' });
    await begin({ agent_id: planner });
    await stopped;
    await call('POST', `/v1/runs/${id}/cancel`, {});
    const types = async () => {
      const { events } = await call('GET', `/v1/runs/${id}/events?types=model.called,model.failed,run.cancelled`);
      return events.map(({ type }: { type: string }) => type);
    };
    await waitUntil('the call is in the log', async () => (await types()).length === 3);
    assert.deepEqual(await types(), ['model.called', 'run.cancelled', 'model.failed']);
    const { turns } = await call('GET', `/v1/runs/${id}/turns`);
    // Half of it is of the subtask, whose answer was broken off as well.
    const used = async () => (await call('GET', `/v1/workflows/${id}`)).usage.tokens_in;
    await waitUntil('both are paid for', async () => (await used()) === 20);
    const { total } = await call('GET', `/v1/dashboard/usage?agent_id=${planner}`);
    assert.deepEqual([turns[0].status, turns[0].usage.tokens_in, total.tokens_in], ['cancelled', 10, 20]);
  });

  it('has a subtask that fails meanwhile tried again', async () => {
    fails = { a: 2 };
    plans = [[OPEN, json('a'), is('a', 'completed'), `, ${json('b', 'a')}`, is('b', 'completed'), CLOSE]];
    await begin();
    const flow = await end();
    assert.deepEqual([flow.status, ...states(flow)], ['completed', 'a completed', 'b completed']);
    assert.equal(flow.tasks[0]?.retry_count, 2);
    assert.deepEqual(done, { a: 1, b: 1 });
  });

  it('does without a subtask that has failed for good where the whole plan has it not', async () => {
    fails = { hopeless: 99 };
    plans = [
      {
        pieces: [OPEN, `${json('hopeless')}, ${json('a')}`, is('hopeless', 'failed'), is('a', 'completed')],
        breakOff: true,
      },
      [OPEN, `${json('a')}, ${json('b', 'a')}`, CLOSE],
    ];
    await begin();
    const flow = await end();
    assert.equal(flow.status, 'completed', JSON.stringify(flow));
    assert.deepEqual(states(flow).toSorted(), ['a completed', 'b completed', 'hopeless cancelled']);
  });

  it('that is whole fails with a subtask of it that has failed for good', async () => {
    fails = { hopeless: 99 };
    plans = [[OPEN, json('hopeless'), is('hopeless', 'failed'), CLOSE]];
    await begin();
    const flow = await end();
    assert.deepEqual([flow.status, flow.error?.code], ['failed', 'SubtaskFailed']);
  });

  it('has a person asked about a subtask that has failed for good once it is whole', async () => {
    fails = { hard: 3 };
    plans = [[OPEN, json('hard'), is('hard', 'failed'), `, ${json('b', 'hard')}`, CLOSE]];
    await begin({ on_subtask_failure: 'ask' });
    await waitUntil('a person is asked', async () => (await read()).status === 'awaiting_human');
    const { approvals } = await call('GET', '/v1/approvals?status=pending');
    assert.equal(approvals.length, 1);
    await call('POST', `/v1/approvals/${approvals[0].id}`, { decision: 'approve' });
    const flow = await end();
    assert.deepEqual([flow.status, ...states(flow)], ['completed', 'hard completed', 'b completed']);
  });
});
