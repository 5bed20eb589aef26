import assert from 'node:assert/strict';
import { methods } from '@agentclientprotocol/sdk';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { openAcp } from '../support/wire/acp.ts';
import { agUiClient } from '../support/wire/ag-ui.ts';
import { aiClient } from '../support/wire/ai-chat.ts';
import { waitUntil } from '../support/wait-until.ts';

describe('a turn that is ended from outside', () => {
  let api: ScriptedService;
  before(async () => {
    api = await startScriptedService();
  });
  after(() => api.close());

  const untilStreamed = async (url: string, words: string) => {
    const { body } = await fetch(url, { headers: { authorization: `Bearer ${api.key}` } });
    let seen = '';
    for await (const piece of body?.pipeThrough(new TextDecoderStream()) ?? []) {
      seen += piece;
      if (seen.includes(words)) return;
    }
    throw new Error(`The stream has ended without "${words}": ${seen}`);
  };

  it('says why, whoever waits for it, reads it or watches it', async () => {
    const agent = await api.newAgent([]);
    const { json: run } = await api.call('POST', `/v1/agents/${agent}/runs`, { body: {} });
    const path = `/v1/runs/${run.run_id}`;
    const answered = api.call('POST', `${path}/turns`, { body: { input: { message: 'hang say nothing' } } });
    await waitUntil('the model is asked', () => api.model.asked('say nothing').length > 0);
    await api.call('POST', `${path}/cancel`, { body: {} });
    const error = { code: 'cancelled', message: 'The turn was cancelled.' };
    const { status, json } = await answered;
    assert.deepEqual([status, json.output.status, json.error, json.output.error], [200, 'cancelled', error, error]);
    const { json: turn } = await api.call('GET', `${path}/turns/${json.turn_id}`);
    assert.deepEqual([turn.status, turn.error], ['cancelled', error]);
    const { text } = await api.call('GET', `${path}/stream`, { headers: { 'last-event-id': '0' } });
    const done = JSON.parse(/^event: done\ndata: (.*)$/m.exec(text)?.[1] ?? '{}') as object;
    assert.deepEqual({ status: 'cancelled', error }, { status: 'cancelled', ...pick(done) });
  });

  it('shows what its model had said, wherever it is read', async () => {
    const agent = await api.newAgent([]);
    const { json: run } = await api.call('POST', `/v1/agents/${agent}/runs`, { body: {} });
    const path = `/v1/runs/${run.run_id}`;
    const posted = { body: { input: { message: 'hang say half an answer' } } };
    const answered = api.call('POST', `${path}/turns`, posted);
    await untilStreamed(`${api.url}${path}/stream`, 'answer');
    await api.call('POST', `${path}/cancel`, { body: {} });
    const { turn_id: id } = (await answered).json;
    const read = async (at: string) => (await api.call('GET', at)).json;
    const shown = () => read(`${path}/turns/${id}`);
    await waitUntil('it is kept', async () => (await shown()).output.message === 'half an answer');
    const { output, error } = await shown();
    assert.deepEqual(output, { message: 'half an answer', status: 'cancelled', error });
    assert.deepEqual((await read(`${path}/turns`)).turns[0].output, output);
    assert.deepEqual((await read(path)).output, output);
    const { conversations } = await read(`/v1/threads/${run.thread_id}/conversations`);
    assert.equal(conversations[0].final_response, 'half an answer');
    const { messages } = await read(`/v1/threads/${run.thread_id}/ui-messages`);
    assert.deepEqual(messages[1].parts, [
      { type: 'step-start' },
      { type: 'text', text: 'half an answer', state: 'done' },
    ]);
    const loaded: string[] = [];
    const acp = await openAcp({ ...api, agent, onUpdate: ({ update }) => loaded.push(JSON.stringify(update)) });
    await acp.agent.request(methods.agent.session.load, { sessionId: run.thread_id, cwd: '/', mcpServers: [] });
    await acp.roundTrip();
    acp.leave();
    assert.ok(
      loaded.some((update) => /"half an answer".*agent_message_chunk/.test(update)),
      loaded.join(),
    );
    for (const open of [aiClient, agUiClient]) {
      const client = open();
      await client.follow({ url: api.url, key: api.key, agent, thread: run.thread_id, run: run.run_id });
      assert.match(JSON.stringify(client.state()), /"half an answer"/, client.form);
    }
  });

  it('says that its user has interrupted it', async () => {
    const agent_id = await api.newAgent([]);
    const body = { message: 'hang say not much', user_id: 'ada', agent_id };
    const { session_id } = (await api.call('POST', '/agent/chat', { body })).json;
    await waitUntil('the model is asked', () => api.model.asked('say not much').length > 0);
    await api.call('POST', '/agent/interrupt', { body: { session_id } });
    const { run_id } = (await api.call('GET', `/agent/session/${session_id}`)).json;
    const { turns } = (await api.call('GET', `/v1/runs/${run_id}/turns`)).json;
    assert.deepEqual(turns[0].error, { code: 'interrupted', message: 'The user interrupted the turn.' });
  });
});

function pick(done: object): { error?: unknown } {
  return 'error' in done ? { error: done.error } : {};
}
