/** The autonomy level of a session beside its agent's. */
import assert from 'node:assert/strict';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { request } from '../support/api.ts';
import { waitUntil } from '../support/wait-until.ts';

describe('A session at the level of its agent', () => {
  let api: ScriptedService;
  before(async () => {
    api = await startScriptedService();
  });
  after(() => api.close());

  it('goes on with its run where the agent names none, and the key may not raise it', async () => {
    const { json: key } = await api.call('POST', '/v1/api-keys', {
      body: { name: 'talker', scopes: ['runs:write', 'runs:read'] },
    });
    const agent_id = await api.newAgent();
    const chat = async (more: object) => {
      const body = { message: 'say hello', user_id: 'ada', agent_id, ...more };
      const { status, json, text } = await request(`${api.url}/agent/chat`, 'POST', { key: key.key, body });
      assert.equal(status, 202, text);
      return json.session_id as string;
    };
    const answered = async (session: string, messages: number) => {
      const read = async () => (await api.call('GET', `/agent/session/${session}`)).json;
      await waitUntil('it has answered', async () => (await read()).messages.length === messages);
      return (await read()).run_id as string;
    };
    const session_id = await chat({ autonomy_level: 2 });
    const run = await answered(session_id, 2);
    await chat({ session_id });
    assert.equal(await answered(session_id, 4), run);
  });
});
