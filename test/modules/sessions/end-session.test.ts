import assert from 'node:assert/strict';
import type { Context } from '../../../modules/governance/context.ts';
import { rebuildProjections } from '../../../modules/run-log/rebuild-projections.ts';
import { interruptSession } from '../../../modules/sessions/end-session.ts';
import { createAuthenticator } from '../../../modules/tenants/authenticate-key.ts';
import { startTestApi } from '../../support/api.ts';
import { startServer } from '../../support/echo-server.ts';
import { door } from '../../support/engine.ts';
import { startScriptedModel } from '../../support/scripted-model.ts';
import { startScriptedService, type ScriptedService } from '../../support/service.ts';
import { startWorkers } from '../../../workers/start-workers.ts';
import { waitUntil } from '../../support/wait-until.ts';

describe('Interrupting a session', () => {
  let api: ScriptedService;
  let agent: string;
  before(async () => {
    api = await startScriptedService();
    agent = await api.newAgent([]);
  });
  after(() => api.close());

  const chat = async (message: string, more: Record<string, unknown> = {}): Promise<string> => {
    const body = { message, user_id: 'ada', agent_id: agent, ...more };
    return (await api.call('POST', '/agent/chat', { body })).json.session_id;
  };

  it('stops the turn that was open when it was asked for, and not the one that the queued message has begun since', async () => {
    const sessionId = await chat('held first say one');
    await waitUntil('the model is asked', () => api.model.asked('held first').length > 0);
    await chat('say two', { session_id: sessionId });
    const caller = await createAuthenticator(api.context.db).byKey(api.key);
    assert.ok(caller);
    const looked = door();
    const withTenant: Context['db']['withTenant'] = async (tenantId, work) => {
      const found = await api.context.db.withTenant(tenantId, work);
      await looked.pass();
      return found;
    };
    const late = { ...api.context, db: { ...api.context.db, withTenant } };
    const second = interruptSession(late, { caller, sessionId });
    await looked.reached;
    const first = await api.call('POST', '/agent/interrupt', { body: { session_id: sessionId } });
    assert.deepEqual([first.json.message, first.json.queued_message], ['Execution stopped', 'say two']);
    looked.open();
    assert.equal((await second).stopped, false);
    api.model.release('first');
    await waitUntil('the turn of the queued message is over', async () => {
      const { json } = await api.call('GET', `/agent/session/${sessionId}`);
      return json.status === 'completed';
    });
  });

  it('tells the model that a call which may have had its effect was interrupted, and asks nobody', async () => {
    const shop = await startServer(() => undefined);
    const transport = { type: 'http', endpoint: `${shop.url}/buy` };
    await api.call('POST', '/v1/tools', { body: { name: 'buy', description: 'Buys.', transport } });
    const buyer = await api.newAgent(['buy']);
    const session_id = await chat('call buy {}', { agent_id: buyer, autonomy_level: 2 });
    await waitUntil('the tool is called', () => shop.seen.length > 0);
    const stopped = await api.call('POST', '/agent/interrupt', { body: { session_id } });
    assert.equal(stopped.json.status, 'interrupted');
    await chat('say what now', { session_id, agent_id: buyer });
    const told = () => JSON.stringify(api.model.asked('').at(-1)?.messages);
    await waitUntil('the model is asked', () => told().includes('say what now'));
    assert.match(told(), /The user interrupted the turn before the call had a result\. The outcome .* is unknown/);
    const { json } = await api.call('GET', '/v1/approvals');
    assert.deepEqual([json.approvals, shop.seen.length], [[], 1]);
    await shop.close();
  });

  it('says the same of a call that waits for its next attempt, where one may have had its effect', async () => {
    const shop = await startServer(({ socket }) => socket.destroy());
    const transport = { type: 'http', endpoint: `${shop.url}/book` };
    const execution = { retry_config: { max_retries: 3, backoff_ms: 60_000 } };
    const tool = { name: 'book', description: 'Books.', annotations: { idempotentHint: true }, transport, execution };
    await api.call('POST', '/v1/tools', { body: tool });
    const booker = await api.newAgent(['book']);
    const session_id = await chat('call book {}', { agent_id: booker, autonomy_level: 2 });
    const { run_id } = (await api.call('GET', `/agent/session/${session_id}`)).json;
    const callOf = async () => {
      const [turn] = (await api.call('GET', `/v1/runs/${run_id}/turns`)).json.turns;
      return (await api.call('GET', `/v1/runs/${run_id}/turns/${turn.id}`)).json.tool_calls[0];
    };
    await waitUntil('it waits', async () => {
      const call = await callOf();
      return call?.attempt === 1 && call.status === 'pending';
    });
    assert.deepEqual(Object.keys((await callOf()).error), ['code', 'message']);
    await api.call('POST', '/agent/interrupt', { body: { session_id } });
    const { status, error } = await callOf();
    assert.deepEqual([status, Object.keys(error)], ['unknown', ['code', 'message']]);
    await chat('say what then', { session_id, agent_id: booker });
    const told = () => JSON.stringify(api.model.asked('').at(-1)?.messages);
    await waitUntil('the model is asked', () => told().includes('say what then'));
    assert.match(told(), /The user interrupted the turn before the call had a result\. The outcome .* is unknown/);
    const { json } = await api.call('GET', '/v1/approvals');
    assert.deepEqual([json.approvals, shop.seen.length], [[], 1]);
    assert.deepEqual((await rebuildProjections(api.context.db, { check: true })).differences, []);
    await shop.close();
  });

  it('leaves what was said in the session, whether or not a model has been told of it, and tells the next one', async () => {
    const model = await startScriptedModel();
    const still = await startTestApi(undefined, { env: { ANTHROPIC_API_KEY: 'test', ANTHROPIC_BASE_URL: model.url } });
    const call = async (method: string, path: string, body?: unknown) =>
      (await still.call(method, path, { body })).json;
    const { id: agent_id } = await call('POST', '/v1/agents', { name: 'still' });
    const say = (message: string, more = {}) =>
      call('POST', '/agent/chat', { message, user_id: 'ada', agent_id, ...more });
    const { session_id } = await say('say one');
    const said = async () =>
      (await call('GET', `/agent/session/${session_id}`)).messages.map(({ content }: { content: string }) => content);
    for (const message of ['say two', 'say three']) {
      await call('POST', '/agent/interrupt', { session_id });
      assert.equal((await call('GET', `/agent/session/${session_id}`)).status, 'interrupted');
      await say(message, { session_id });
    }
    assert.deepEqual(await said(), ['say one', 'say two', 'say three']);
    await call('POST', '/agent/interrupt', { session_id });
    assert.deepEqual(await said(), ['say one', 'say two', 'say three']);
    const workers = await startWorkers(still.context);
    await say('say four', { session_id });
    await waitUntil('the model has answered', async () => (await said()).length === 5);
    assert.deepEqual((await said()).slice(0, 4), ['say one', 'say two', 'say three', 'say four']);
    const told = JSON.stringify(model.asked('').at(-1)?.messages);
    assert.match(told, /say one.*say two.*say three.*say four/);
    await workers.stop(5000);
    await still.close();
    await model.close();
  });
});
