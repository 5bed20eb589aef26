/** Questions in a session: whoever asks, the user's next message is the answer. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { startA2aServer, type A2aServer } from '../support/a2a-server.ts';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { last, typesOf, watchSession } from '../support/watch-session.ts';
import { waitUntil } from '../support/wait-until.ts';
import { inTurn } from '../support/wire/recordings.ts';

interface Said {
  role: string;
  content: string;
}

describe('A question in a session', () => {
  let api: ScriptedService;
  let remote: A2aServer;
  before(async () => {
    remote = await startA2aServer();
    api = await startScriptedService({ env: { DROVER_EGRESS_ALLOW: '127.0.0.1' } });
  });
  after(async () => {
    await api.close();
    await remote.close();
  });

  const chat = async (message: string, more: Record<string, unknown>): Promise<string> => {
    const body = { message, user_id: 'ada', ...more };
    const { status, json, text } = await api.call('POST', '/agent/chat', { body });
    assert.equal(status, 202, text);
    return json.session_id;
  };
  const read = async (session: string) => (await api.call('GET', `/agent/session/${session}`)).json;
  /** Until the session asks this. */
  const asked = (session: string, question: string) =>
    waitUntil(`it asks ${question}`, async () => {
      const { status, waiting_for: wait } = await read(session);
      return status === 'waiting_approval' && wait.question === question;
    });
  const answered = async (session: string): Promise<string> => {
    await waitUntil('the turn is over', async () => (await read(session)).status === 'completed');
    return (await read(session)).messages.at(-1).content;
  };

  /** What the view has of what was said: who, and what. */
  const said = async (session: string): Promise<string[]> =>
    (await read(session)).messages.map(({ role, content }: Said) => `${role}: ${content}`);

  it('stands among the messages with its answer, each once', async () => {
    const agent_id = await api.newAgent(['ask_user']);
    const session_id = await chat('call ask_user {"question":"Which one?"} | say The red one.', {
      agent_id,
    });
    await asked(session_id, 'Which one?');
    const begun = [(await said(session_id))[0], 'assistant: Which one?'];
    assert.deepEqual(await said(session_id), begun);
    await chat('red', { session_id });
    await answered(session_id);
    const ended = [...begun, 'user: red', 'assistant: The red one.'];
    assert.deepEqual(await said(session_id), ended);
    await chat('say Bye.', { session_id });
    await waitUntil('it is answered', async () => (await said(session_id)).at(-1) === 'assistant: Bye.');
    assert.deepEqual(await said(session_id), [...ended, 'user: say Bye.', 'assistant: Bye.']);
  });

  it('is no tool call on the stream, live or resumed, where one beside it is', async () => {
    const agent_id = await api.newAgent(['ask_user', 'calculator']);
    const question = { question: 'Which one?' };
    const message = `call ask_user ${JSON.stringify(question)} & calculator {"expression":"1"} | say The red one.`;
    const session = await chat(message, { agent_id });
    const headers = { authorization: `Bearer ${api.key}` };
    const live = await watchSession({ url: api.url, session, headers, after: 0 });
    await live.until('the question', (frames) => typesOf(frames).includes('waiting_for_approval'));
    const upTo = live.frames.at(-1)?.seq ?? 0;
    await chat('red', { session_id: session });
    await live.until('the answer', last('completed'));
    const ofCalls = live.frames.filter(({ type }) => type.startsWith('tool_call_'));
    assert.deepEqual(new Set(ofCalls.map(({ payload }) => payload.tool)), new Set(['calculator']));
    const resumed = await watchSession({ url: api.url, session, headers, after: upTo });
    await resumed.until('the answer', last('completed'));
    const after = live.frames.filter(({ seq }) => (seq ?? 0) > upTo);
    assert.deepEqual(resumed.frames.slice(1), after);
    for (const { socket } of [live, resumed]) socket.terminate();
  });

  it('stands there before its answer where several are asked, by whatever way they are answered', async () => {
    const agent_id = await api.newAgent(['ask_user']);
    const calls = 'ask_user {"question":"one?"} & ask_user {"question":"two?"}';
    const session_id = await chat(`call ${calls} | say Well.`, { agent_id, autonomy_level: 2 });
    await asked(session_id, 'one?');
    assert.deepEqual((await said(session_id)).slice(1), ['assistant: one?', 'assistant: two?']);
    const { json: run } = await api.call('GET', `/v1/runs/${(await read(session_id)).run_id}`);
    const two = run.waits.find(({ question }: { question: string }) => question === 'two?');
    const second = { wait_id: two.wait_id, answer: 'second' };
    const resumed = await api.call('POST', `/v1/runs/${run.id}/resume`, {
      body: second,
      headers: { prefer: 'respond-async' },
    });
    assert.equal(resumed.status, 202, resumed.text);
    assert.deepEqual((await said(session_id)).slice(1), ['assistant: one?', 'assistant: two?', 'user: second']);
    const body = { type: 'user', payload: { message: 'first' } };
    assert.equal((await api.call('POST', `/v1/runs/${run.id}/signals`, { body })).status, 202);
    assert.equal(await answered(session_id), 'Well.');
    assert.deepEqual((await said(session_id)).slice(1), [
      'assistant: one?',
      'user: first',
      'assistant: two?',
      'user: second',
      'assistant: Well.',
    ]);
  });

  it('counts, as its answer does, among the last 50 messages', async () => {
    const agent_id = await api.newAgent(['ask_user']);
    const calls = Array.from({ length: 26 }, (_, n) => `ask_user {"question":"${n}?"}`);
    const session_id = await chat(`call ${calls.join(' & ')} | say Enough.`, { agent_id, autonomy_level: 2 });
    const { run_id } = await read(session_id);
    const waits = async (): Promise<{ wait_id: string; question: string }[]> =>
      (await api.call('GET', `/v1/runs/${run_id}`)).json.waits ?? [];
    await waitUntil('all are asked', async () => (await waits()).length === 26);
    const answers = (await waits()).map(({ wait_id, question }) => ({ wait_id, answer: `to ${question}` }));
    assert.equal((await api.call('POST', `/v1/runs/${run_id}/resume`, { body: { answers } })).status, 200);
    const all = Array.from({ length: 26 }, (_, n) => [`assistant: ${n}?`, `user: to ${n}?`]).flat();
    assert.deepEqual(await said(session_id), [...all, 'assistant: Enough.'].slice(-50));
  });

  it('of a node with a name is answered by the next message', async () => {
    const say = { name: 'say', type: 'llm', config: { prompt: 'say they said {{output}}' } };
    for (const config of [{ prompt: 'How much?' }, { prompt: 'How much?', signal: 'user', name: 'sum' }]) {
      const agent_id = await api.newAgent([], { workflow_graph: inTurn({ name: 'ask', type: 'human', config }, say) });
      const session_id = await chat('begin', { agent_id });
      await asked(session_id, 'How much?');
      await chat('ten', { session_id });
      assert.match(await answered(session_id), /ten/);
      assert.deepEqual((await said(session_id)).slice(0, 3), ['user: begin', 'assistant: How much?', 'user: ten']);
    }
  });

  it('is answered before another one, and beside a tool of the client', async () => {
    const agent_id = await api.newAgent(['ask_user', 'confirm']);
    const calls = 'ask_user {"question":"one?"} & ask_user {"question":"two?"} & confirm {}';
    const session_id = await chat(`call ${calls}`, { agent_id, autonomy_level: 2 });
    await asked(session_id, 'one?');
    await chat('first', { session_id });
    await asked(session_id, 'two?');
    await chat('second', { session_id });
    await waitUntil(
      'the client is waited for',
      async () => (await read(session_id)).waiting_for?.type === 'client_tools',
    );
    const { run_id, status, waiting_for: wait } = await read(session_id);
    assert.equal(status, 'executing');
    const payload = { tool_results: [{ tool_use_id: wait.tool_use_id, content: 'third' }] };
    const body = { type: 'tool_results', payload };
    assert.equal((await api.call('POST', `/v1/runs/${run_id}/signals`, { body })).status, 202);
    assert.match(await answered(session_id), /first.*second.*third/);
  });

  it('is answered beside a plan that waits', async () => {
    const agent_id = await api.newAgent(['ask_user', 'calculator']);
    const calls = 'calculator {"expression":"6*7"} & ask_user {"question":"Which one?"}';
    const session_id = await chat(`call ${calls}`, { agent_id, autonomy_level: 0 });
    await waitUntil('a plan waits', async () => (await read(session_id)).pending_plan !== null);
    const { pending_plan: plan } = await read(session_id);
    await chat('red', { session_id });
    const { status, queued_message } = await read(session_id);
    assert.deepEqual([status, queued_message], ['waiting_approval', null]);
    await api.call('POST', '/agent/execute', { body: { session_id, plan_id: plan.plan_id } });
    assert.match(await answered(session_id), /42.*red/);
  });

  it('about a plan is whether to carry it out, and no more, where a node makes its call', async () => {
    const sum = { expression: '6*7' };
    const nodes = {
      tool: { tool: 'calculator', input: sum },
      human: { prompt: 'Go on?', signal: 'approval' },
      llm: { tools: ['calculator'] },
    };
    for (const [type, config] of Object.entries(nodes)) {
      const graph = inTurn({ name: 'think', type: 'llm', config: { tools: [] } }, { name: 'act', type, config });
      const agent_id = await api.newAgent([], { workflow_graph: graph });
      // What a model says is what the next one is told.
      const session_id = await chat(`say call calculator ${JSON.stringify(sum)}`, { agent_id, autonomy_level: 0 });
      await waitUntil('a plan waits', async () => (await read(session_id)).status === 'waiting_approval');
      const { pending_plan: plan } = await read(session_id);
      const body = { session_id, plan_id: plan.plan_id };
      const refined = await api.call('POST', '/agent/refine', { body: { ...body, feedback: 'in words' } });
      if (type === 'llm') {
        assert.equal(refined.status, 202, refined.text);
        await answered(session_id);
        continue;
      }
      assert.equal(refined.status, 409, refined.text);
      assert.match(refined.json.detail, new RegExp(`a ${type} node .* Execute it or reject it\\.$`));
      assert.deepEqual((await read(session_id)).pending_plan, plan);
      assert.equal((await api.call('POST', '/agent/execute', { body })).status, 200);
      assert.equal(await answered(session_id), type === 'tool' ? '{"result":42}' : '{"approved":true}');
    }
  });

  it('is no wait for a webhook, which is shown without the address that answers it', async () => {
    const ask = { name: 'ask', type: 'human', config: { prompt: 'Well?', signal: 'webhook', name: 'paid' } };
    const session_id = await chat('begin', { agent_id: await api.newAgent([], { workflow_graph: inTurn(ask) }) });
    await waitUntil('it waits', async () => (await read(session_id)).waiting_for?.type === 'webhook');
    const { status, waiting_for: wait } = await read(session_id);
    assert.equal(status, 'executing');
    assert.deepEqual(Object.keys(wait).toSorted(), ['name', 'tool_call_id', 'type', 'until', 'wait_id']);
  });

  it('of a remote agent is answered, too', async () => {
    const name = `remote_${randomUUID().replaceAll('-', '')}`;
    const transport = { type: 'a2a', endpoint: remote.url };
    const made = await api.call('POST', '/v1/tools', { body: { name, description: 'Another agent.', transport } });
    assert.equal(made.status, 201, made.text);
    const agent_id = await api.newAgent([name]);
    const session_id = await chat(`call ${name} {"message":"ask which one?"}`, { agent_id, autonomy_level: 2 });
    await asked(session_id, 'which one?');
    await chat('say the blue one', { session_id });
    assert.match(await answered(session_id), /the blue one/);
    assert.deepEqual((await said(session_id)).slice(1, 3), ['assistant: which one?', 'user: say the blue one']);
  });
});
