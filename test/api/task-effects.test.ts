/** What the attempts at a task have done outside is not done again by itself. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { startServer, type LocalServer } from '../support/echo-server.ts';
import { startFakeAnthropic } from '../support/fake-anthropic.ts';
import { startTestService } from '../support/service.ts';
import type { TestApi } from '../support/api.ts';
import { waitUntil } from '../support/wait-until.ts';

const REFUSED = { error: { status: 400, type: 'invalid_request_error', message: 'no' } };

describe('A task whose attempt has had an effect', () => {
  let api: TestApi;
  let shop: LocalServer;
  let payer: string;
  let mapper: string;
  let boss: string;
  let isRefusing = true;
  /** How often what is planned has paid before the plan is broken off. */
  let payments = 1;
  /** What the planner answers, in turn; undefined, and where nothing is left: a plan that can never be whole, of which "Pay." is begun. */
  let plans: (string | undefined)[] = [];
  let planned: string[] = [];
  /** Until then the model does not answer after it has paid. */
  let waits: Promise<void> | undefined;

  const paid = () => waitUntil('it has paid', async () => shop.seen.length >= payments);

  before(async () => {
    const model = await startFakeAnthropic(async (request) => {
      const [brief, last] = [JSON.stringify(request.messages[0]), JSON.stringify(request.messages.at(-1))];
      const hasTool = (name: string) => request.tools?.some((tool) => tool.name === name);
      const use = (name: string, input: object) => ({
        content: [{ type: 'tool_use', id: `toolu_${randomUUID()}`, name, input }],
        stop_reason: 'tool_use',
      });
      if (hasTool('submit_plan')) {
        planned.push(JSON.stringify(request.messages));
        const written = plans.shift();
        if (written !== undefined) return { ...use('submit_plan', {}), pieces: [written] };
        const pieces = ['{"subtasks": [{"id": "pay", "description": "Pay.", "dependencies": []}', paid, ', {"id": "b"'];
        pieces.push(', "description": "b", "dependencies": ["nobody"]}], "success_criteria": ""}');
        return { ...use('submit_plan', {}), pieces };
      }
      if (/Delegate/.test(brief) && hasTool('delegate'))
        return last.includes('tool_result')
          ? { content: [{ type: 'text', text: 'told' }] }
          : use('delegate', { description: 'Pay.', agent: payer });
      const pays = ['pay', 'pay_mapped'].find(hasTool);
      if (!last.includes('tool_result') && pays !== undefined) return use(pays, {});
      await waits;
      return isRefusing ? REFUSED : { content: [{ type: 'text', text: 'paid' }] };
    });
    shop = await startServer((_seen, response) => void response.writeHead(200).end('{"paid":true}'));
    api = await startTestService({ model, env: { DROVER_EGRESS_ALLOW: '127.0.0.1' } });
    const transport = { type: 'http', endpoint: `${shop.url}/pay` };
    const mapped = { ...transport, response: { expression: '$error("boom")' } };
    await call('POST', '/v1/tools', { name: 'pay_mapped', description: 'Pays.', transport: mapped });
    mapper = (await call('POST', '/v1/agents', { name: 'mapper', tools: ['pay_mapped'], autonomy_level: 3 })).id;
    await call('POST', '/v1/tools', { name: 'pay', description: 'Pays.', transport });
    payer = (await call('POST', '/v1/agents', { name: 'payer', tools: ['pay'], autonomy_level: 3 })).id;
    boss = (await call('POST', '/v1/agents', { name: 'boss', tools: ['delegate'], autonomy_level: 3 })).id;
  });
  after(async () => {
    await api.close();
    await shop.close();
  });
  beforeEach(() => {
    shop.seen.length = 0;
    isRefusing = true;
    waits = undefined;
    payments = 1;
    plans = [];
    planned = [];
  });

  const call = async (method: string, path: string, body?: unknown) => {
    const answer = await api.call(method, path, body === undefined ? {} : { body });
    assert.ok(answer.status < 300, answer.text);
    return answer.json;
  };
  const until = async (path: string, status: string) => {
    await waitUntil(`${path} is ${status}`, async () => (await call('GET', path)).status === status);
    return call('GET', path);
  };
  const work = (more = {}) =>
    call('POST', '/v1/workflows', {
      name: 'pay',
      agent_id: payer,
      input: { user_query: 'Pay.' },
      definition: { subtasks: [{ id: 'pay', description: 'Pay.' }] },
      ...more,
    });
  const decide = async (run: string, decision: 'approve' | 'deny') => {
    let asked: { id: string; message: string } | undefined;
    await waitUntil('a person is asked', async () => {
      const { approvals } = await call('GET', `/v1/approvals?status=pending&run_id=${run}`);
      [asked] = approvals;
      return asked !== undefined;
    });
    await call('POST', `/v1/approvals/${asked?.id}`, { decision });
    return asked?.message ?? '';
  };

  it('fails, and says what had the effect', async () => {
    const { id } = await call('POST', '/v1/tasks', {
      description: 'Pay.',
      requirements: { preferred_agents: [payer] },
    });
    const task = await until(`/v1/tasks/${id}`, 'failed');
    assert.deepEqual([shop.seen.length, task.retry_count], [1, 0]);
    assert.match(JSON.stringify(task), /It is not tried again by itself: what pay did would be done once more/);
  });

  it('fails, too, where the answer to what had the effect could not be read', async () => {
    const { id } = await call('POST', '/v1/tasks', {
      description: 'Pay.',
      requirements: { preferred_agents: [mapper] },
    });
    await until(`/v1/tasks/${id}`, 'failed');
    assert.equal(shop.seen.length, 1);
  });

  it('is tried again in its workflow where a person has read that and says so', async () => {
    const { id } = await work({ on_subtask_failure: 'ask' });
    await until(`/v1/workflows/${id}`, 'awaiting_human');
    assert.equal(shop.seen.length, 1);
    isRefusing = false;
    assert.match(await decide(id, 'approve'), /what pay did would be done once more/);
    await until(`/v1/workflows/${id}`, 'completed');
    assert.equal(shop.seen.length, 2);
  });

  it('is asked about where its workflow is retried or replayed, however often, whatever that does with failures', async () => {
    let { id } = await work();
    await until(`/v1/workflows/${id}`, 'failed');
    for (const again of ['retry', 'retry']) {
      ({ new_run_id: id } = await call('POST', `/v1/runs/${id}/${again}`, {}));
      assert.match(await decide(id, 'deny'), /what pay did would be done once more/);
      await until(`/v1/workflows/${id}`, 'failed');
    }
    const replay = { checkpoint_id: 'start' };
    const { new_run_id: replayed } = await call('POST', `/v1/runs/${id}/replay`, replay);
    assert.equal(shop.seen.length, 1);
    isRefusing = false;
    await decide(replayed, 'approve');
    await until(`/v1/workflows/${replayed}`, 'completed');
    assert.equal(shop.seen.length, 2);
  });

  it('is asked about where its workflow was cancelled in the middle of it and is retried', async () => {
    let goOn: () => void = () => undefined;
    waits = new Promise((resolve) => (goOn = resolve));
    const { id } = await work();
    await paid();
    await call('POST', `/v1/runs/${id}/cancel`, {});
    goOn();
    isRefusing = false;
    const { new_run_id: again } = await call('POST', `/v1/runs/${id}/retry`, {});
    await decide(again, 'approve');
    await until(`/v1/workflows/${again}`, 'completed');
    assert.equal(shop.seen.length, 2);
  });

  it('is not begun again where its plan was never whole, unless a person says so', async () => {
    let goOn: () => void = () => undefined;
    waits = new Promise((resolve) => (goOn = resolve));
    const { id } = await work({ definition: undefined });
    const flow = await until(`/v1/workflows/${id}`, 'failed');
    goOn();
    assert.deepEqual([flow.error.code, flow.tasks[0].status, shop.seen.length], ['InvalidPlan', 'cancelled', 1]);
    for (const [again, body] of [
      ['retry', {}],
      ['replay', { checkpoint_id: 'start' }],
    ] as const) {
      const { status, json, text } = await api.call('POST', `/v1/runs/${id}/${again}`, { body });
      assert.deepEqual([status, json.effects], [409, ['pay']], text);
      assert.match(json.detail, /pay was begun before its plan was whole/);
    }
    assert.equal(shop.seen.length, 1);
    payments = 2;
    const rerun = { checkpoint_id: 'start', rerun_effects: true };
    const { new_run_id: replayed } = await call('POST', `/v1/runs/${id}/replay`, rerun);
    await until(`/v1/workflows/${replayed}`, 'failed');
    assert.equal(shop.seen.length, 2);
  });

  describe('of a plan that is written anew', () => {
    const planOf = (id: string, description: string) =>
      JSON.stringify({ subtasks: [{ id, description, dependencies: [] }], success_criteria: '' });
    const workWith = (...anew: string[]) => {
      isRefusing = false;
      plans = [undefined, ...anew];
      return work({ definition: undefined });
    };

    it('is taken over once the planner has been told of it', async () => {
      const { id } = await workWith(planOf('bill', 'Pay the bill.'), planOf('settle', 'Pay.'));
      const flow = await until(`/v1/workflows/${id}`, 'completed');
      assert.deepEqual([flow.tasks.length, flow.tasks[0].subtask_id, shop.seen.length], [1, 'settle', 1]);
      assert.equal(planned.length, 3);
      assert.match(planned[2] ?? '', /Under way already.*Pay\./);
    });

    it('is not done again in other words', async () => {
      const { id } = await workWith(planOf('bill', 'Pay the bill.'), planOf('bill', 'Pay the bill.'));
      const flow = await until(`/v1/workflows/${id}`, 'failed');
      assert.deepEqual([flow.error.code, flow.tasks[0].status, shop.seen.length], ['InvalidPlan', 'cancelled', 1]);
      assert.match(
        flow.error.message,
        /without what was begun before it was whole: pay\. .*what pay did would be done once more/,
      );
      assert.equal((await api.call('POST', `/v1/runs/${id}/retry`, { body: {} })).status, 409);
    });
  });

  it('is not delegated again by a run that is retried: a person is asked how far it came', async () => {
    let goOn: () => void = () => undefined;
    waits = new Promise((resolve) => (goOn = resolve));
    const { run_id: run } = await call('POST', `/v1/agents/${boss}/runs`, { input: { message: 'Delegate.' } });
    await paid();
    await call('POST', `/v1/runs/${run}/cancel`, {});
    goOn();
    const { new_run_id: again } = await call('POST', `/v1/runs/${run}/retry`, {});
    const { waiting_for } = await until(`/v1/runs/${again}`, 'awaiting_human');
    assert.deepEqual([waiting_for.kind, waiting_for.tool, shop.seen.length], ['unknown', 'delegate', 1]);
    await call('POST', `/v1/runs/${again}/cancel`, {});
  });
});
