import assert from 'node:assert/strict';
import { methods } from '@agentclientprotocol/sdk';
import { startServer, type LocalServer } from '../support/echo-server.ts';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { openAcp } from '../support/wire/acp.ts';
import { agUiClient } from '../support/wire/ag-ui.ts';
import { aiClient } from '../support/wire/ai-chat.ts';
import { waitUntil } from '../support/wait-until.ts';

describe('a turn that is ended from outside', () => {
  let api: ScriptedService;
  let silent: LocalServer;
  before(async () => {
    silent = await startServer(() => undefined);
    const env = { DROVER_EGRESS_ALLOW: '127.0.0.1' };
    api = await startScriptedService({ env });
    for (const [name, execution] of [
      ['note', {}],
      ['pay', { inline: true }],
    ] as const) {
      const transport = { type: 'http', endpoint: `${silent.url}/${name}` };
      const tool = { name, description: 'Is never answered.', risk_level: 'WRITE_LOW_RISK', transport, execution };
      const { status, text } = await api.call('POST', '/v1/tools', { body: tool });
      assert.equal(status, 201, text);
    }
  });
  after(async () => {
    await api.close();
    await silent.close();
  });

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

  describe('during calls of its tools', () => {
    const interrupted = /cancelled during the call/;
    /** What is told of a run that asked for one call, and was cancelled while it was made. */
    const cancelledIn = async (tool: string) => {
      const agent = await api.newAgent([tool], { autonomy_level: 3 });
      const body = { input: { message: `call ${tool} {} | say never` } };
      const { json: run } = await api.call('POST', `/v1/agents/${agent}/runs`, { body });
      assert.ok(run.run_id, JSON.stringify(run));
      await waitUntil('the call is made', () => silent.seen.some(({ path }) => path === `/${tool}`), 20_000);
      assert.equal((await api.call('POST', `/v1/runs/${run.run_id}/cancel`, { body: {} })).status, 202);
      return { agent, run: run.run_id, thread: run.thread_id };
    };

    for (const [how, tool] of [
      ['a worker of calls', 'note'],
      ['its driver', 'pay'],
    ] as const) {
      it(`tells in every view that the outcome of a call by ${how} is unknown, before its own end`, async () => {
        const { agent, run, thread } = await cancelledIn(tool);
        const { json: page } = await api.call('GET', `/v1/runs/${run}/events?limit=100`);
        const types = page.events.map(({ type }: { type: string }) => type);
        assert.ok(types.indexOf('tool.unknown') > types.indexOf('tool.requested'), types.join(' '));
        assert.equal(types.filter((type: string) => type === 'turn.interrupted').length, 1);
        assert.ok(types.indexOf('turn.interrupted') > types.indexOf('tool.unknown'), types.join(' '));
        const streamed = await api.call('GET', `/v1/runs/${run}/stream`, { headers: { 'last-event-id': '0' } });
        assert.match(streamed.text, /event: tool_result\ndata: .*"status":"unknown"[^]*event: done\n/);
        const { json: log } = await api.call('GET', `/v1/runs/${run}/log?types=tool_error`);
        assert.deepEqual([log.actions.length, log.actions[0]?.action_data.tool_name], [1, tool]);
        const { json: past } = await api.call('GET', `/v1/threads/${thread}/ui-messages`);
        const [part] = past.messages[1].parts.filter((each: { type: string }) => each.type === `tool-${tool}`);
        assert.equal(part.state, 'output-error');
        assert.match(part.errorText, interrupted);
        for (const open of [aiClient, agUiClient]) {
          const client = open();
          await client.follow({ url: api.url, key: api.key, agent, thread, run });
          assert.match(
            JSON.stringify(client.state()),
            interrupted,
            `${client.form}: ${JSON.stringify(client.state())}`,
          );
        }
        await waitUntil('the call has settled in its own row', async () => {
          const { json } = await api.call('GET', `/v1/runs/${run}/turns`);
          const turn = await api.call('GET', `/v1/runs/${run}/turns/${json.turns[0].id}`);
          return turn.json.tool_calls[0].status === 'unknown';
        });
        const { json: later } = await api.call('GET', `/v1/runs/${run}/events?limit=100`);
        assert.equal(later.events.at(-1).type, 'turn.interrupted', 'the log of an ended run is closed');
      });
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
