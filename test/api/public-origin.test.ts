import assert from 'node:assert/strict';
import { newName } from '../support/new-name.ts';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { waitUntil } from '../support/wait-until.ts';

/** As a proxy that ends TLS passes a request on. */
const proxied = (proto: string) => ({ 'x-forwarded-proto': proto, 'x-forwarded-for': '203.0.113.7' });

describe('behind a proxy that ends TLS', () => {
  let api: ScriptedService;
  before(async () => {
    api = await startScriptedService();
  });
  after(() => api.close());

  it('the address of a webhook is that by which the client has come', async () => {
    const { json: agent } = await api.call('POST', '/v1/agents', {
      body: { name: newName('waits'), tools: ['wait_for_webhook'] },
    });
    const body = { input: { message: 'call wait_for_webhook {}' } };
    const { json: run } = await api.call('POST', `/v1/agents/${agent.id}/runs`, { body });
    const hookOf = async (headers: Record<string, string>): Promise<string | undefined> =>
      (await api.call('GET', `/v1/runs/${run.run_id}`, { headers })).json.waiting_for?.hook_url;
    await waitUntil('the run waits', async () => (await hookOf({})) !== undefined);
    const plain = (await hookOf({})) ?? '';
    assert.ok(plain.startsWith(`${api.url}/v1/hooks/`), plain);
    for (const proto of ['https', 'HTTPS', 'https, http'])
      assert.equal(await hookOf(proxied(proto)), plain.replace(/^http:/, 'https:'), proto);
    for (const proto of ['http', 'httpsx', 'http, https']) assert.equal(await hookOf(proxied(proto)), plain, proto);
  });

  it("an agent's card names an address with TLS", async () => {
    const agent = await api.newAgent();
    const path = `/a2a/${agent}/.well-known/agent-card.json`;
    const { json } = await api.call('GET', path, { headers: proxied('https') });
    assert.equal(json.supportedInterfaces[0].url, `${api.url.replace(/^http:/, 'https:')}/a2a/${agent}`);
  });
});
