import assert from 'node:assert/strict';
import type { Context } from '../../../modules/governance/context.ts';
import { interruptSession } from '../../../modules/sessions/end-session.ts';
import { createAuthenticator } from '../../../modules/tenants/authenticate-key.ts';
import { startServer } from '../../support/echo-server.ts';
import { door } from '../../support/engine.ts';
import { startScriptedService, type ScriptedService } from '../../support/service.ts';
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
});
