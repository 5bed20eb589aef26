/** Questions in a session: whoever asks, the user's next message is the answer. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { startA2aServer, type A2aServer } from '../support/a2a-server.ts';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { waitUntil } from '../support/wait-until.ts';
import { inTurn } from '../support/wire/recordings.ts';

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

  it('of a node with a name is answered by the next message', async () => {
    const say = { name: 'say', type: 'llm', config: { prompt: 'say they said {{output}}' } };
    for (const config of [{ prompt: 'How much?' }, { prompt: 'How much?', signal: 'user', name: 'sum' }]) {
      const agent_id = await api.newAgent([], { workflow_graph: inTurn({ name: 'ask', type: 'human', config }, say) });
      const session_id = await chat('begin', { agent_id });
      await asked(session_id, 'How much?');
      await chat('ten', { session_id });
      assert.match(await answered(session_id), /ten/);
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
  });
});
