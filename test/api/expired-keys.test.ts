/** Connections whose key ends while they are open. */
import assert from 'node:assert/strict';
import { methods, type NewSessionResponse, type PromptResponse } from '@agentclientprotocol/sdk';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { waitUntil } from '../support/wait-until.ts';
import { openAcp, type AcpClient } from '../support/wire/acp.ts';

describe('An open connection', () => {
  let api: ScriptedService;
  let agent: string;
  const clients: AcpClient[] = [];

  before(async () => {
    api = await startScriptedService();
    agent = await api.newAgent([]);
  });
  afterEach(() => {
    for (const client of clients.splice(0)) client.leave();
  });
  after(() => api.close());

  /** Of a key that ends soon, with a session. */
  async function open() {
    const ends = new Date(Date.now() + 2000);
    const body = { name: 'short', scopes: ['runs:write', 'runs:read'], expires_at: ends.toISOString() };
    const { id, key } = (await api.call('POST', '/v1/api-keys', { body })).json;
    const client = await openAcp({ url: api.url, key, agent, onUpdate: () => undefined });
    clients.push(client);
    const { session } = methods.agent;
    const request = { cwd: '/', mcpServers: [] };
    const { sessionId } = await client.agent.request<NewSessionResponse>(session.new, request);
    const prompt = () =>
      client.agent.request<PromptResponse>(session.prompt, { sessionId, prompt: [{ type: 'text', text: 'say so' }] });
    return { id, ends, client, sessionId, prompt };
  }

  it('begins no turn after its key has expired, and ends then', async () => {
    const { ends, client, sessionId, prompt } = await open();
    const isDone = await prompt().then(() => true);
    assert.ok(isDone);
    let isRefused = false;
    while (!isRefused)
      isRefused = await prompt().then(
        () => false,
        () => true,
      );
    await client.closed;
    const [run] = (await api.call('GET', `/v1/runs?thread_id=${sessionId}`)).json.runs;
    const { events } = (await api.call('GET', `/v1/runs/${run.run_id}/events?types=turn.started&limit=200`)).json;
    const late = events.filter(({ occurred_at }: { occurred_at: string }) => new Date(occurred_at) > ends);
    // One may have been on its way.
    assert.ok(late.length <= 1, `${late.length} of ${events.length} turns began too late`);
  });

  it('goes on where the end of its key was put off', async () => {
    const { id, ends, prompt } = await open();
    assert.equal((await api.call('PATCH', `/v1/api-keys/${id}`, { body: { expires_at: null } })).status, 200);
    await waitUntil('the first end is over', () => new Date() > ends);
    assert.equal((await prompt()).stopReason, 'end_turn');
  });
});
