import assert from 'node:assert/strict';
import type { Context } from '../../../modules/governance/context.ts';
import { interruptSession } from '../../../modules/sessions/end-session.ts';
import { createAuthenticator } from '../../../modules/tenants/authenticate-key.ts';
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
});
