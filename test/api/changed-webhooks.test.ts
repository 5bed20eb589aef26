import assert from 'node:assert/strict';
import { DEFAULT_TENANT_ID } from '../../modules/tenants/bootstrap.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { startServer, type LocalServer } from '../support/echo-server.ts';
import { DOMAIN_MODE } from '../support/modes.ts';
import { newName } from '../support/new-name.ts';
import { failForHours } from '../support/queries/webhooks.ts';
import { sendDueWebhooks } from '../support/webhooks.ts';

describe('A webhook that is changed while a delivery is under way', () => {
  let api: TestApi;
  let receiver: LocalServer;
  let agent: string;
  let status = 200;
  /** What somebody does before the old endpoint answers. */
  let meanwhile: (() => Promise<unknown>) | undefined;
  before(async () => {
    receiver = await startServer((request, response) => {
      const isOld = request.path.startsWith('/old');
      const act = isOld ? meanwhile : undefined;
      meanwhile = isOld ? undefined : meanwhile;
      void (async () => {
        await act?.();
        response.writeHead(isOld ? status : 200);
        response.end();
      })();
    });
    api = await startTestApi(DOMAIN_MODE, { env: { DROVER_EGRESS_ALLOW: '127.0.0.1' } });
    agent = (await api.call('POST', '/v1/agents', { body: { name: newName() } })).json.id;
  });
  after(async () => {
    await api.close();
    await receiver.close();
  });

  const hookAt = async (path: string): Promise<string> => {
    const body = { url: `${receiver.url}${path}`, events: ['run.created'] };
    const { status: made, json, text } = await api.call('POST', '/v1/webhooks', { body });
    assert.equal(made, 201, text);
    return json.id;
  };
  const move = (id: string) => api.call('PATCH', `/v1/webhooks/${id}`, { body: { url: `${receiver.url}/new` } });
  const state = async (id: string) => (await api.call('GET', `/v1/webhooks/${id}`)).json;
  const deliveries = async (id: string) => (await api.call('GET', `/v1/webhooks/${id}/deliveries`)).json.deliveries;
  const startRun = () => api.call('POST', `/v1/agents/${agent}/runs`, { body: {} });
  const remove = (id: string) => api.call('DELETE', `/v1/webhooks/${id}`);

  for (const answer of [410, 500]) {
    it(`has nothing to do with what its old URL answers: ${answer}`, async () => {
      const id = await hookAt('/old');
      status = answer;
      meanwhile = () => move(id);
      await startRun();
      await sendDueWebhooks(api.context);
      const { status: now, failures, next_at, url } = await state(id);
      assert.deepEqual([now, failures, next_at, url], ['active', 0, null, `${receiver.url}/new`]);
      assert.equal((await deliveries(id))[0].status, 'delivered', 'at the new one, at once');
      await remove(id);
    });
  }

  it('has not failed for days where another URL did', async () => {
    const id = await hookAt('/old');
    status = 500;
    await startRun();
    await sendDueWebhooks(api.context);
    await failForHours({ ...api, tenantId: DEFAULT_TENANT_ID }, 73);
    await api.call('PATCH', `/v1/webhooks/${id}`, { body: { url: `${receiver.url}/old-too` } });
    await startRun();
    await sendDueWebhooks(api.context);
    assert.equal((await state(id)).status, 'active');
    await remove(id);
  });

  it('sends once more what is asked for again meanwhile', async () => {
    const id = await hookAt('/old');
    status = 200;
    meanwhile = async () => {
      const [{ id: delivery }] = await deliveries(id);
      const again = await api.call('POST', `/v1/webhooks/${id}/deliveries/${delivery}/redeliver`, { body: {} });
      assert.equal(again.status, 202, again.text);
    };
    receiver.seen.length = 0;
    await startRun();
    await sendDueWebhooks(api.context);
    assert.equal(receiver.seen.length, 2);
    const [{ status: end, attempts }] = await deliveries(id);
    assert.deepEqual([end, attempts], ['delivered', 1]);
    await remove(id);
  });
});
