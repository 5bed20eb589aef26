/** What guards calls is not gone around by keys that may run agents and not approve. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { waitUntil } from '../support/wait-until.ts';

const SUM = 'call calculator {"expression":"6*7"}';
const CALL = `${SUM} | say done`;

describe('A key with runs:write', () => {
  let api: ScriptedService;
  let runner: string;
  let decider: string;
  before(async () => {
    api = await startScriptedService();
    runner = await keyWith(['runs:write', 'runs:read']);
    decider = await keyWith(['runs:write', 'runs:read', 'approvals:write']);
  });
  after(() => api.close());

  const keyWith = async (scopes: string[]): Promise<string> =>
    (await api.call('POST', '/v1/api-keys', { body: { name: 'k', scopes } })).json.key;
  const newAgent = (fields: object) => api.newAgent(['calculator'], { ...fields });
  const patch = async (agent: string, body: object) => {
    const { status, text } = await api.call('PATCH', `/v1/agents/${agent}`, { body });
    assert.equal(status, 200, text);
  };
  const as = (key: string, path: string, body: object) => api.call('POST', path, { key, body });
  const runOf = async (run: string) => (await api.call('GET', `/v1/runs/${run}`)).json;
  /** The approval for which a run waits, or one below it. */
  const approvalOf = async (run: string): Promise<string> => {
    let id = '';
    await waitUntil('somebody is asked', async () => {
      const { text: tree } = await api.call('GET', `/v1/runs/${run}/tree`);
      const { json } = await api.call('GET', '/v1/approvals?status=pending&limit=100');
      id = json.approvals.find((each: { run_id: string }) => tree.includes(each.run_id))?.id ?? '';
      return id !== '';
    });
    return id;
  };

  it('runs no older version of an agent that guards calls less than the current one', async () => {
    const agent = await newAgent({ autonomy_level: 3 });
    await patch(agent, { autonomy_level: 0 });
    const old = { agent_version: '1.0.0' };
    const start = (key: string, config: object) =>
      as(key, `/v1/agents/${agent}/runs`, { input: { message: 'say hello' }, config });
    const refused = await start(runner, old);
    assert.deepEqual([refused.status, /autonomy_level.*approvals:write/.test(refused.json.detail)], [403, true]);
    assert.equal((await start(runner, { ...old, autonomy_level: 0 })).status, 202);
    const { json: before } = await start(decider, old);
    await waitUntil(
      'it is done',
      async () => (await api.call('GET', `/v1/runs/${before.run_id}`)).json.status === 'completed',
    );
    const replay = (key: string) => as(key, `/v1/runs/${before.run_id}/replay`, { checkpoint_id: 'start' });
    assert.deepEqual([(await replay(runner)).status, (await replay(decider)).status], [403, 202]);
    await patch(agent, { execution_config: { four_eyes: true } });
    const loose = await start(runner, { agent_version: '1.1.0' });
    assert.deepEqual([loose.status, /four_eyes/.test(loose.json.detail)], [403, true]);
  });

  it('makes no call of an older run by a version of its tool that was guarded less', async () => {
    const transport = { type: 'client' };
    const begun = async (guards: object, message = 'call NAME {} | say done') => {
      const name = `sign_${randomUUID().slice(0, 8)}`;
      const { json: tool } = await api.call('POST', '/v1/tools', { body: { name, description: 'Signs.', transport } });
      const agent = await api.newAgent([name, 'calculator']);
      const { json: old } = await as(runner, `/v1/agents/${agent}/runs`, { input: { message: 'say hello' } });
      await waitUntil('it is done', async () => (await runOf(old.run_id)).status === 'completed');
      const { status, text } = await api.call('PATCH', `/v1/tools/${tool.id}`, { body: guards });
      assert.equal(status, 200, text);
      const messages = [{ role: 'user', content: message.replace('NAME', name) }];
      const replay = { checkpoint_id: 'start', modified_state: { messages } };
      const { json } = await as(runner, `/v1/runs/${old.run_id}/replay`, replay);
      return json.new_run_id as string;
    };
    const risky = await begun({ risk_level: 'WRITE_HIGH_RISK' });
    await waitOf(risky, 'approval');
    await api.call('POST', `/v1/runs/${risky}/cancel`, { body: {} });
    const { json: retried } = await as(runner, `/v1/runs/${risky}/retry`, {});
    await waitOf(retried.new_run_id, 'approval');

    const forbidden = await begun({ permissions: [{ name: 'sign', required: true }] });
    await waitUntil('it is done', async () => (await runOf(forbidden)).status === 'completed');
    assert.match(api.model.asked('sign_').at(-1)?.results.join() ?? '', /Permission denied/);
  });

  it('goes on in a session with the autonomy level that its agent has now', async () => {
    const agent = await newAgent({ autonomy_level: 3 });
    const chat = async (message: string, more = {}) => {
      const { json, status, text } = await as(runner, '/agent/chat', { message, user_id: 'ada', ...more });
      assert.equal(status, 202, text);
      return json.session_id as string;
    };
    const session = await chat('say hello', { agent_id: agent, autonomy_level: 3 });
    const read = async () => (await api.call('GET', `/agent/session/${session}`)).json;
    await waitUntil('it is answered', async () => (await read()).status === 'completed');
    await patch(agent, { autonomy_level: 0 });
    await chat(CALL, { session_id: session });
    await waitUntil('a person is asked', async () => (await read()).status === 'waiting_approval');
    const { run_id: run } = await read();
    await api.call('POST', `/v1/runs/${run}/cancel`, { body: {} });
    await chat(CALL, { session_id: session });
    await waitUntil('a person is asked again', async () => {
      const now = await read();
      return now.status === 'waiting_approval' && now.run_id !== run;
    });
  });

  it('leads no run past a node that asks a person', async () => {
    const workflow_graph = {
      entry_point: 'review',
      nodes: [
        { name: 'review', type: 'human', config: { prompt: 'Shall it be sent?', signal: 'approval' } },
        { name: 'send', type: 'tool', config: { tool: 'calculator', input: { expression: '1' } } },
      ],
      edges: [{ from: 'review', to: 'send', condition: 'output.approved' }],
    };
    const agent = await newAgent({ autonomy_level: 3, workflow_graph });
    const { json: run } = await as(runner, `/v1/agents/${agent}/runs`, { input: { message: 'send' } });
    await approvalOf(run.run_id);
    const { json: saved, text } = await api.call('POST', `/v1/runs/${run.run_id}/checkpoints`, { body: {} });
    assert.ok(saved.id, text);
    const replay = (key: string, modified_state: object) =>
      as(key, `/v1/runs/${run.run_id}/replay`, { checkpoint_id: saved.id, modified_state });
    for (const state of [{ current_node: 'send' }, { custom: { approved: true } }]) {
      const { status, json } = await replay(runner, state);
      assert.deepEqual([status, /approvals:write/.test(json.detail)], [403, true], JSON.stringify(json));
    }
    assert.equal((await replay(decider, { current_node: 'send' })).status, 202);
  });

  it('approves nothing under four eyes that it has asked for, by whatever way', async () => {
    const four = { autonomy_level: 0, execution_config: { four_eyes: true } };
    const agent = await newAgent(four);
    const boss = await api.newAgent(['delegate'], { autonomy_level: 3 });
    const delegated = `call delegate ${JSON.stringify({ description: SUM, agent })} | say told`;
    const begun: Record<string, { path: string; body: object }> = {
      'a run': { path: `/v1/agents/${agent}/runs`, body: { input: { message: CALL } } },
      'an objective': {
        path: '/v1/objectives',
        body: { schema_version: 'v1', request_id: randomUUID(), agent_id: agent, objective_prompt: CALL },
      },
      'a workflow': {
        path: '/v1/workflows',
        body: {
          name: 'w',
          agent_id: agent,
          input: { user_query: 'sum' },
          definition: { subtasks: [{ id: 'a', description: CALL }] },
        },
      },
      'a task': { path: '/v1/tasks', body: { description: CALL, requirements: { preferred_agents: [agent] } } },
      'what is delegated': { path: `/v1/agents/${boss}/runs`, body: { input: { message: delegated } } },
    };
    for (const [what, { path, body }] of Object.entries(begun)) {
      const { json, status, text } = await as(decider, path, body);
      assert.ok(status < 300, `${what}: ${text}`);
      const run = json.workflow_id ?? json.run_id ?? json.id;
      const id = await approvalOf(run);
      const own = await as(decider, `/v1/approvals/${id}`, { decision: 'approve' });
      assert.deepEqual([own.status, /four eyes/.test(own.json.detail)], [403, true], what);
      assert.equal((await api.call('POST', `/v1/approvals/${id}`, { body: { decision: 'deny' } })).status, 200, what);
    }
    // A task that somebody else adds to a workflow is asked for by them.
    const { json: workflow } = await api.call('POST', '/v1/workflows', {
      body: {
        name: 'w',
        agent_id: agent,
        input: { user_query: 'x' },
        definition: { subtasks: [{ id: 'a', description: `held wait ${CALL}` }] },
      },
    });
    await as(decider, '/v1/tasks', {
      workflow_id: workflow.id,
      description: CALL,
      requirements: { preferred_agents: [agent] },
    });
    const id = await approvalOf(workflow.id);
    assert.equal((await as(decider, `/v1/approvals/${id}`, { decision: 'approve' })).status, 403);
    assert.equal((await api.call('POST', `/v1/approvals/${id}`, { body: { decision: 'approve' } })).status, 200);
    await api.call('POST', `/v1/runs/${workflow.id}/cancel`, { body: {} });
    api.model.release('wait');
  });

  it('approves nothing under four eyes that it has steered to or answered for', async () => {
    const rule = {
      name: 'sums',
      when: 'tool == "calculator"',
      decision: 'require_approval',
      reason: 'r',
      four_eyes: true,
    };
    const { json: policy } = await api.call('POST', '/v1/policies', { body: rule });
    const agent = await api.newAgent(['calculator', 'ask_user', 'current_time', 'confirm'], { autonomy_level: 3 });
    const waiting = async (message: string, type: string) => {
      const { json } = await as(runner, `/v1/agents/${agent}/runs`, { input: { message } });
      const run: string = json.run_id;
      return { run, ...(await waitOf(run, type)) };
    };
    const asking = async () => (await waiting(`call ask_user {"question":"sum?"} | ${CALL}`, 'user')).run;
    const confirming = async () => {
      const { run, tool_use_id } = await waiting(`call confirm {} | ${CALL}`, 'client_tools');
      return { run, results: [{ tool_use_id, content: 'yes' }] };
    };
    const said = { message: 'yes' };
    const ways: Record<string, () => Promise<{ run: string; answer: { status: number; text: string } }>> = {
      async 'an answer'() {
        const run = await asking();
        return { run, answer: await as(decider, `/v1/runs/${run}/resume`, { answer: 'yes' }) };
      },
      async 'a signal'() {
        const run = await asking();
        return { run, answer: await as(decider, `/v1/runs/${run}/signals`, { type: 'user', payload: said }) };
      },
      async 'a turn that answers'() {
        const run = await asking();
        return { run, answer: await as(decider, `/v1/agents/${agent}/runs/${run}/turns`, { input: said }) };
      },
      async 'results of client tools'() {
        const { run, results: tool_results } = await confirming();
        return { run, answer: await as(decider, `/v1/agents/${agent}/runs/${run}/turns`, { tool_results }) };
      },
      async 'results of client tools as a signal'() {
        const { run, results: payload } = await confirming();
        return { run, answer: await as(decider, `/v1/runs/${run}/signals`, { type: 'tool_results', payload }) };
      },
      async 'results of client tools that resume'() {
        const { run, results: tool_results } = await confirming();
        return { run, answer: await as(decider, `/v1/runs/${run}/resume`, { tool_results }) };
      },
      async 'a refined plan'() {
        const begun = { user_id: 'ada', agent_id: agent, message: `${SUM} | ${CALL}` };
        const { session_id } = (await as(runner, '/agent/chat', begun)).json;
        const session = async () => (await api.call('GET', `/agent/session/${session_id}`)).json;
        await waitUntil('a plan', async () => (await session()).status === 'waiting_approval');
        const { run_id: run, pending_plan: plan } = await session();
        const refined = { session_id, plan_id: plan.plan_id, feedback: 'another sum' };
        return { run, answer: await as(decider, '/agent/refine', refined) };
      },
      async 'an answer below'() {
        const boss = await api.newAgent(['delegate', 'calculator'], { autonomy_level: 3 });
        const description = 'call ask_user {"question":"sum?"} | say told';
        const message = `${delegating(description, agent)} | ${CALL}`;
        const { run_id: run } = (await as(runner, `/v1/agents/${boss}/runs`, { input: { message } })).json;
        const child = await childOf(run);
        await waitOf(child, 'user');
        return { run, answer: await as(decider, `/v1/runs/${child}/resume`, { answer: 'yes' }) };
      },
      async steering() {
        const begun = { user_id: 'ada', agent_id: agent, message: 'held steering call current_time {}' };
        const { json } = await as(runner, '/agent/chat', begun);
        await waitUntil('the model is asked', () => api.model.asked('held steering').length > 0);
        const steers = { session_id: json.session_id, user_id: 'ada', mode: 'steer', message: CALL };
        const answer = await as(decider, '/agent/chat', steers);
        api.model.release('steering');
        const { json: session } = await api.call('GET', `/agent/session/${json.session_id}`);
        return { run: session.run_id, answer };
      },
    };
    for (const [what, act] of Object.entries(ways)) {
      const { run, answer } = await act();
      assert.ok(answer.status < 300, `${what}: ${answer.text}`);
      const id = await approvalOf(run);
      const own = await as(decider, `/v1/approvals/${id}`, { decision: 'approve' });
      assert.deepEqual([own.status, /four eyes/.test(own.json.detail)], [403, true], what);
      assert.equal(
        (await api.call('POST', `/v1/approvals/${id}`, { body: { decision: 'approve' } })).status,
        200,
        what,
      );
    }
    await api.call('DELETE', `/v1/policies/${policy.id}`);
  });

  it('approves nothing under four eyes beside another say of its own in one request, in whatever order', async () => {
    const rule = { name: 'all', when: 'tool == "calculator"', decision: 'require_approval', reason: 'r' };
    const { json: policy } = await api.call('POST', '/v1/policies', { body: rule });
    const four = { autonomy_level: 3, execution_config: { four_eyes: true } };
    const agent = await api.newAgent(['calculator', 'ask_user', 'confirm', 'wait_for_webhook'], four);
    type Wait = { wait_id: string; type: string; tool_use_id: string };
    const waiting = async (beside: string) => {
      const message = `${SUM} & ${beside} | say done`;
      const { run_id: run } = (await as(runner, `/v1/agents/${agent}/runs`, { input: { message } })).json;
      let waits: Wait[] = [];
      await waitUntil('it waits for both', async () => {
        ({ waits = [] } = await runOf(run));
        return waits.length === 2;
      });
      return { run, waits };
    };
    const approve = ({ wait_id }: Wait) => ({ wait_id, decision: { decision: 'approve' } });
    const decided = (decision: object) => (wait: Wait) => ({ wait_id: wait.wait_id, decision });
    const other = 'calculator {"expression":"1"}';
    const says: Record<string, { beside: string; answer: (wait: Wait) => object }> = {
      'edited arguments': {
        beside: other,
        answer: decided({ decision: 'edit', arguments: { expression: '1+1' } }),
      },
      'a reason to deny': { beside: other, answer: decided({ decision: 'deny', reason: 'pay me' }) },
      'an answer': { beside: 'ask_user {"question":"sum?"}', answer: ({ wait_id }) => ({ wait_id, answer: 'yes' }) },
      'a result of the client': {
        beside: 'confirm {}',
        answer: ({ wait_id, tool_use_id }) => ({ wait_id, tool_results: [{ tool_use_id, content: 'yes' }] }),
      },
      'a payload': { beside: 'wait_for_webhook {}', answer: ({ wait_id }) => ({ wait_id, payload: { paid: true } }) },
    };
    for (const [what, { beside, answer }] of Object.entries(says)) {
      const { run, waits } = await waiting(beside);
      const said = waits.find(({ type }) => type !== 'approval') ?? waits[0];
      const answers = waits.map((wait) => (wait === said ? answer(wait) : approve(wait)));
      for (const inOrder of [answers, answers.toReversed()]) {
        const { status, json } = await as(decider, `/v1/runs/${run}/resume`, { answers: inOrder });
        assert.deepEqual([status, /four eyes/.test(json.detail)], [403, true], `${what}: ${JSON.stringify(json)}`);
      }
      assert.equal((await runOf(run)).waits.length, 2, what);
      await api.call('POST', `/v1/runs/${run}/cancel`, { body: {} });
    }
    // Without a say, one key approves several at once.
    const { run, waits } = await waiting(other);
    const granted = await as(decider, `/v1/runs/${run}/resume`, { answers: waits.map(approve) });
    assert.equal(granted.status, 200, granted.text);
    await api.call('DELETE', `/v1/policies/${policy.id}`);
  });

  it('approves nothing under four eyes of what works for a run of its own, also where others have had a say there', async () => {
    const four = { autonomy_level: 0, execution_config: { four_eyes: true } };
    const agent = await api.newAgent(['calculator', 'ask_user'], four);
    const boss = await api.newAgent(['delegate'], { autonomy_level: 3 });
    const description = `call ask_user {"question":"sum?"} | ${SUM} | say told`;
    const message = `${delegating(description, agent)} | say done`;
    const { run_id: run } = (await as(decider, `/v1/agents/${boss}/runs`, { input: { message } })).json;
    const child = await childOf(run);
    await waitOf(child, 'user');
    await as(runner, `/v1/runs/${child}/resume`, { answer: 'yes' });
    const id = await approvalOf(run);
    assert.equal((await as(decider, `/v1/approvals/${id}`, { decision: 'approve' })).status, 403);
    assert.equal((await api.call('POST', `/v1/approvals/${id}`, { body: { decision: 'approve' } })).status, 200);
  });

  /** The step that delegates; the steps of the description are not its own. */
  function delegating(description: string, agent: string): string {
    return `call delegate ${JSON.stringify({ description, agent }).replaceAll('|', String.raw`\u007c`)}`;
  }

  /** The one run below another. */
  async function childOf(run: string): Promise<string> {
    let child: string | undefined;
    await waitUntil('it has a child', async () => {
      const { json } = await api.call('GET', `/v1/runs/${run}/tree`);
      child = json.children?.[0]?.run_id;
      return child !== undefined;
    });
    return child ?? '';
  }

  async function waitOf(run: string, type: string): Promise<{ tool_use_id: string }> {
    let wait: { type: string; tool_use_id: string } | undefined;
    await waitUntil(`a wait of type ${type}`, async () => {
      const { json } = await api.call('GET', `/v1/runs/${run}`);
      wait = json.waits?.find((each: { type: string }) => each.type === type);
      return wait !== undefined;
    });
    return { tool_use_id: wait?.tool_use_id ?? '' };
  }
});
