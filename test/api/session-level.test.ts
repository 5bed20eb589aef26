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

  it('holds whoever begins a run on its thread', async () => {
    const { json: key } = await api.call('POST', '/v1/api-keys', {
      body: { name: 'runner', scopes: ['runs:write', 'runs:read'] },
    });
    const send = async (path: string, body: object) => {
      const answer = await api.call('POST', path, { key: key.key, body });
      assert.ok(answer.status < 300, answer.text);
      return answer.json;
    };
    const agent_id = await api.newAgent(['calculator'], { autonomy_level: 3 });
    const talk = { user_id: 'ada', agent_id, autonomy_level: 0 };
    const sum = 'call calculator {"expression":"6*7"} | say never';
    const { session_id } = await send('/agent/chat', { ...talk, message: 'say hello' });
    const read = async () => (await api.call('GET', `/agent/session/${session_id}`)).json;
    const until = async (status: string, run?: string) => {
      await waitUntil(`it is ${status}`, async () => {
        const now = await read();
        return now.status === status && (run === undefined || now.run_id === run);
      });
      return (await read()).run_id as string;
    };
    const runs = `/v1/agents/${agent_id}/runs`;
    await send(`/v1/runs/${await until('completed')}/complete`, {});
    const { run_id: idle } = await send(runs, { thread_id: session_id, config: { keep_open: true } });
    await send('/agent/chat', { ...talk, session_id, message: sum });
    assert.equal(await until('waiting_approval'), idle);
    await send(`/v1/runs/${idle}/cancel`, {});
    const { run_id: loose } = await send(runs, {
      thread_id: session_id,
      input: { message: sum },
      config: { autonomy_level: 3 },
    });
    await until('waiting_approval', loose);
    assert.equal((await read()).pending_plan.steps.length, 1);
    await send(`/v1/runs/${loose}/cancel`, {});
    const { new_run_id: again } = await send(`/v1/runs/${loose}/retry`, {});
    await until('waiting_approval', again);
  });
});
