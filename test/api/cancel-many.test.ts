import assert from 'node:assert/strict';
import { startTestApi, type TestApi } from '../support/api.ts';

describe('POST /v1/runs/cancel', () => {
  let api: TestApi;
  before(async () => {
    api = await startTestApi();
  });
  after(() => api.close());

  it('cancels the unfinished runs that fit, no others, and tells the audit log', async () => {
    const { key } = await api.newTenant();
    const call = async (path: string, body: unknown) => (await api.call('POST', path, { key, body })).json;
    const [one, two] = [await call('/v1/agents', { name: 'one' }), await call('/v1/agents', { name: 'two' })];
    const start = async (agent: string): Promise<string> => (await call(`/v1/agents/${agent}/runs`, {})).run_id;
    const mine = [await start(one.id), await start(one.id), await start(one.id)];
    const other = await start(two.id);
    await call(`/v1/runs/${mine[0]}/complete`, {});
    const answer = await call('/v1/runs/cancel', { filter: { agent_id: one.id }, reason: 'a bad prompt' });
    assert.deepEqual(answer, { cancelled: 2, run_ids: mine.slice(1).toSorted(), more: false });
    const statusOf = async (run: string) => (await api.call('GET', `/v1/runs/${run}`, { key })).json.status;
    assert.deepEqual(await Promise.all([...mine, other].map(statusOf)), [
      'completed',
      'cancelled',
      'cancelled',
      'created',
    ]);
    assert.equal((await call('/v1/runs/cancel', { filter: { agent_id: one.id } })).cancelled, 0);
    assert.equal((await call('/v1/runs/cancel', { filter: { status: ['completed'] } })).cancelled, 0);
    const { json } = await api.call('GET', '/v1/audit?action=runs.cancelled', { key });
    assert.deepEqual(json.audit.at(-1).details.filter.agentId, one.id);
    const each = await api.call('GET', '/v1/audit?action=run.cancelled', { key });
    assert.equal(each.json.audit.length, 2);
  });

  it('takes so many at a time, says when there are more, and wants a filter', async () => {
    const { key } = await api.newTenant();
    const stranger = await api.newTenant();
    const call = (path: string, body: unknown, as = key) => api.call('POST', path, { key: as, body });
    const { json: agent } = await call('/v1/agents', { name: 'many' });
    for (let n = 0; n < 203; n += 1) await call(`/v1/agents/${agent.id}/runs`, {});
    const filter = { status: 'created' };
    assert.equal((await call('/v1/runs/cancel', { filter }, stranger.key)).json.cancelled, 0);
    const first = (await call('/v1/runs/cancel', { filter })).json;
    assert.deepEqual([first.cancelled, first.more], [200, true]);
    const second = (await call('/v1/runs/cancel', { filter })).json;
    assert.deepEqual([second.cancelled, second.more], [3, false]);
    for (const body of [{}, { filter: {} }]) assert.equal((await call('/v1/runs/cancel', body)).status, 400);
  });

  it('says what fits, and cancels nothing', async () => {
    const { key } = await api.newTenant();
    const call = async (path: string, body: unknown) => (await api.call('POST', path, { key, body })).json;
    const agent = await call('/v1/agents', { name: 'one' });
    const { run_id } = await call(`/v1/agents/${agent.id}/runs`, {});
    const answer = await call('/v1/runs/cancel', { filter: { agent_id: agent.id }, dry_run: true });
    assert.deepEqual(answer, { matching: 1, run_ids: [run_id], more: false });
    assert.equal((await api.call('GET', `/v1/runs/${run_id}`, { key })).json.status, 'created');
    assert.deepEqual((await api.call('GET', '/v1/audit?action=runs.cancelled', { key })).json.audit, []);
  });
});
