import assert from 'node:assert/strict';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { waitUntil } from '../support/wait-until.ts';
import { newName } from '../support/new-name.ts';
import { makeApprovalsLarge } from '../support/queries/approvals.ts';
import { walkList } from '../support/walk-list.ts';

describe('what a run waits for', () => {
  let api: ScriptedService;

  before(async () => {
    api = await startScriptedService();
  });
  after(() => api.close());

  const post = (path: string, body: unknown) => api.call('POST', path, { body });

  /** The run once it waits for all of these. */
  async function waiting(message: string, types: string[], config: Record<string, unknown> = {}) {
    const tools = ['ask_user', 'confirm', 'sleep', 'wait_for_webhook', 'calculator'];
    const { json: agent } = await post('/v1/agents', { name: newName('waiter'), tools });
    const { json } = await post(`/v1/agents/${agent.id}/runs`, { input: { message }, config });
    let run: Record<string, unknown> = {};
    await waitUntil(`${message} waits`, async () => {
      run = (await api.call('GET', `/v1/runs/${json.run_id}`)).json;
      const waits = (run['waits'] ?? []) as { type: string }[];
      return String(waits.map(({ type }) => type).toSorted()) === String(types.toSorted());
    });
    // oxlint-disable-next-line typescript/no-explicit-any -- tests say themselves what they expect of an answer
    return run as any;
  }

  it('has the question, under the id of the call that asks it', async () => {
    const run = await waiting('call ask_user {"question":"How much?"}', ['user']);
    const [wait] = run.waits;
    assert.deepEqual(run.waiting_for, wait);
    assert.deepEqual([wait.question, wait.wait_id], ['How much?', wait.tool_call_id]);
    const { json } = await api.call('GET', `/v1/runs/${run.id}/turns`);
    const { json: turn } = await api.call('GET', `/v1/runs/${run.id}/turns/${json.turns[0].id}`);
    assert.equal(turn.tool_calls[0].id, wait.wait_id);
  });

  it('has a question whose answer is a message, and nothing that begins with a turn', async () => {
    const { run_id: run } = await waiting('call ask_user {"question":"How much?"}', ['user']);
    const more = { output_schema: { type: 'object' }, metadata: { a: 'b' } };
    const refused = await post(`/v1/runs/${run}/turns`, { input: { message: '5' }, ...more });
    assert.equal(refused.status, 422, refused.text);
    assert.deepEqual(
      refused.json.errors.map(({ path }: { path: string }) => path),
      ['body.output_schema', 'body.metadata'],
    );
    assert.equal((await post(`/v1/runs/${run}/turns`, { input: { message: '5' } })).json.output.status, 'complete');
  });

  it('has the approval, with its ids and why a person is asked', async () => {
    const run = await waiting('call calculator {"expression":"1+1"}', ['approval'], { autonomy_level: 0 });
    const { json } = await api.call('GET', `/v1/approvals?run_id=${run.id}`);
    const [{ id, tool_call_id, message, expires_at }] = json.approvals;
    assert.deepEqual(run.waiting_for, {
      wait_id: id,
      type: 'approval',
      name: null,
      until: expires_at,
      approval_id: id,
      kind: 'approval',
      tool: 'calculator',
      tool_call_id,
      plan_id: null,
      message,
    });
    assert.deepEqual(run.waits, [run.waiting_for]);
  });

  it('is approved once by a signal that comes twice: what the run waits for by then has not been seen', async () => {
    const calls = 'call calculator {"expression":"1+1"} | call calculator {"expression":"2+2"} | say Four.';
    const { id, waiting_for: first } = await waiting(calls, ['approval'], { autonomy_level: 0 });
    const approve = async (more: object, headers = {}) => {
      const body = { type: 'approval', payload: { decision: 'approve' }, ...more };
      const { status, json } = await api.call('POST', `/v1/runs/${id}/signals`, { body, headers });
      return status === 200 ? json.id : status;
    };
    const read = async () => (await api.call('GET', `/v1/runs/${id}`)).json;
    assert.equal(await approve({ id: 'yes' }), first.approval_id);
    await waitUntil(
      'it asks again',
      async () => ![undefined, first.approval_id].includes((await read()).waiting_for?.approval_id),
    );
    const { waiting_for: second } = await read();
    assert.equal(await approve({ id: 'yes' }), first.approval_id);
    assert.equal((await read()).waiting_for.approval_id, second.approval_id);
    const key = { 'idempotency-key': 'sure' };
    assert.equal(await approve({}, key), second.approval_id);
    await waitUntil('it is done', async () => (await read()).status === 'completed');
    assert.equal(await approve({}, key), second.approval_id);
    assert.equal(await approve({}), 409);
  });

  it('says of a signal what in its payload does not fit, and why', async () => {
    const { id } = await waiting('call calculator {"expression":"1+1"}', ['approval'], { autonomy_level: 0 });
    const refusals: [type: string, payload: unknown, path: string, message: string][] = [
      ['tool_results', { tool_results: [{}] }, 'tool_results.0.tool_use_id', 'is required'],
      ['tool_results', { tool_result: [] }, 'tool_results', 'is required'],
      ['tool_results', 'done', '', 'expected array or object'],
      ['user', {}, 'message', 'is required'],
      ['user', { massage: 'yes', message: 'yes' }, 'massage', 'is not a known field; did you mean message?'],
      ['approval', { decision: 'approve', approval_id: 'first' }, 'approval_id', 'must be a UUID'],
    ];
    for (const [type, payload, field, message] of refusals) {
      const { status, json } = await api.call('POST', `/v1/runs/${id}/signals`, { body: { type, payload } });
      const path = field === '' ? 'body.payload' : `body.payload.${field}`;
      assert.equal(status, 400);
      assert.deepEqual([json.errors[0], json.detail], [{ path, message }, `${path} ${message}`]);
    }
  });

  it('has why a person is asked about a budget, in a session as well', async () => {
    const { json: agent } = await post('/v1/agents', { name: newName('spender'), tools: ['calculator'] });
    const budget = { agent_id: agent.id, name: 'small', period: 'total', max_tokens: 1_000_000, soft_limit: 0.000_001 };
    assert.equal((await post('/v1/budgets', { ...budget, on_soft_limit: 'ask' })).status, 201);
    const message = 'call calculator {"expression":"1+1"} | say Two.';
    const { json } = await post('/agent/chat', { message, user_id: 'ada', agent_id: agent.id });
    const read = async () => (await api.call('GET', `/agent/session/${json.session_id}`)).json;
    await waitUntil('it asks', async () => (await read()).status === 'waiting_approval');
    const { run_id, waiting_for: wait } = await read();
    assert.deepEqual([wait.type, wait.tool, wait.plan_id], ['approval', 'budget', null]);
    assert.match(
      wait.message,
      /^The budget "small" has passed its soft limit: \d+% of it is spent\. May the run go on\?$/,
    );
    const { json: run } = await api.call('GET', `/v1/runs/${run_id}`);
    assert.deepEqual(run.waiting_for, wait);
    assert.equal((await post(`/v1/approvals/${wait.approval_id}`, { decision: 'approve' })).status, 200);
    await waitUntil('it goes on', async () => (await read()).messages.at(-1).content === 'Two.');
  });

  it('shows on its stream all steps of a plan that it asks for', async () => {
    const expressions = ['1+1', '2+2', '3+3'];
    const message = `call ${expressions.map((expression) => `calculator {"expression":"${expression}"}`).join(' & ')}`;
    const run = await waiting(message, ['approval'], { autonomy_level: 0 });
    await post(`/v1/runs/${run.id}/cancel`, {});
    const { text } = await api.call('GET', `/v1/runs/${run.id}/stream`, { headers: { 'last-event-id': '0' } });
    const frame = /^event: approval\ndata: (.*)$/m.exec(text)?.[1] ?? '{}';
    const { tool, plan_id, input } = JSON.parse(frame) as {
      tool: string;
      plan_id: string;
      input: { steps: { tool: string; arguments: unknown }[] };
    };
    assert.deepEqual([tool, typeof plan_id], ['plan', 'string'], text);
    assert.deepEqual(
      input.steps.map((step) => [step.tool, step.arguments]),
      expressions.map((expression) => ['calculator', { expression }]),
    );
  });

  it('has each approval of several', async () => {
    const message = 'call calculator {"expression":"1+1"} & calculator {"expression":"2+2"}';
    const run = await waiting(message, ['approval', 'approval'], { autonomy_level: 0 });
    const { json } = await api.call('GET', `/v1/approvals?run_id=${run.id}`);
    const ids = (list: { id?: string; wait_id?: string }[]) =>
      list.map(({ id, wait_id }) => id ?? wait_id ?? '').toSorted();
    assert.deepEqual(ids(run.waits.map(({ wait_id }: { wait_id: string }) => ({ wait_id }))), ids(json.approvals));
  });

  it('has approvals that are listed in pages, which end where they are large enough', async () => {
    const runs: string[] = [];
    for (let n = 0; n < 4; n++) {
      const run = await waiting('call calculator {"expression":"1+1"}', ['approval'], { autonomy_level: 0 });
      await makeApprovalsLarge(api, run.id);
      runs.unshift(run.id);
    }
    const listed = await walkList(api, '/v1/approvals', { list: 'approvals' });
    assert.deepEqual(
      listed.slice(0, 4).map(({ run_id }) => run_id),
      runs,
    );
    assert.equal(new Set(listed.map(({ id }) => id)).size, listed.length);
  });

  it('has the calls of the client, with what names them and their input', async () => {
    const run = await waiting('call confirm {"what":"send"}', ['client_tools']);
    const { wait_id, type, tool, tool_use_id, tool_call_id, input } = run.waiting_for;
    assert.deepEqual([type, tool, input, wait_id], ['client_tools', 'confirm', { what: 'send' }, tool_call_id]);
    assert.match(tool_use_id, /./);
  });

  it('has webhooks and timers by name, and what somebody can act on first', async () => {
    const message = 'call sleep {"seconds":600,"name":"nap"} & wait_for_webhook {"name":"paid","timeout_seconds":900}';
    const run = await waiting(message, ['timer', 'webhook']);
    const named = run.waits.map(({ type, name }: { type: string; name: string }) => [type, name]);
    assert.deepEqual(named, [
      ['timer', 'nap'],
      ['webhook', 'paid'],
    ]);
    assert.deepEqual([run.waiting_for.type, run.waiting_for.wait_id], ['webhook', run.waits[1].wait_id]);
    assert.match(run.waiting_for.hook_url, /\/v1\/hooks\//);
  });

  it('is its first turn where it has had none', async () => {
    const { json: agent } = await api.call('POST', '/v1/agents', { body: { name: 'patient' } });
    const { json: started } = await api.call('POST', `/v1/agents/${agent.id}/runs`, { body: {} });
    const { json } = await api.call('GET', `/v1/runs/${started.run_id}`);
    assert.deepEqual([json.status, json.waits], ['created', undefined]);
    const { until, ...wait } = json.waiting_for;
    assert.deepEqual(wait, { wait_id: null, type: 'turn', name: null });
    assert.equal(Date.parse(until) - Date.parse(json.created_at), 86_400_000);
  });

  it('is its next turn between two turns', async () => {
    const run = await waiting('say hello', [], { keep_open: true });
    await waitUntil('the turn is over', async () => {
      const { json } = await api.call('GET', `/v1/runs/${run.id}`);
      return json.waiting_for?.type === 'turn' && json.waiting_for.wait_id === null && json.waits === undefined;
    });
  });
});
