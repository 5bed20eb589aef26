import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { startServer, type LocalServer } from '../support/echo-server.ts';
import { text, use } from '../support/engine.ts';
import { startFakeAnthropic } from '../support/fake-anthropic.ts';
import { startTestService } from '../support/service.ts';
import type { TestApi } from '../support/api.ts';
import { waitUntil } from '../support/wait-until.ts';

describe("The lines of a run's jobs", () => {
  let api: TestApi;
  let server: LocalServer;
  before(async () => {
    server = await startServer((_request, response) => response.end('{}'));
    const model = await startFakeAnthropic(({ messages }) => {
      const results = messages.filter(({ content }) => JSON.stringify(content).includes('tool_result')).length;
      return (
        [use({ name: 'sleep', input: { seconds: 1 } }), use({ name: 'pay' }), text('paid')][results] ?? text('done')
      );
    });
    api = await startTestService({ model });
  });
  after(async () => {
    await api.close();
    await server.close();
  });

  it('have the trace of the run, also after it has waited for the time or a person', async () => {
    const post = async (path: string, body: unknown, headers = {}) => {
      const { json, status, text: said } = await api.call('POST', path, { body, headers });
      assert.ok(status < 300, said);
      return json;
    };
    const tool = { name: 'pay', description: 'Pays.', transport: { type: 'http', endpoint: server.url } };
    await post('/v1/tools', { ...tool, risk_level: 'WRITE_HIGH_RISK' });
    const { id } = await post('/v1/agents', { name: 'payer', tools: ['sleep', 'pay'] });
    const trace = randomBytes(16).toString('hex');
    const headers = { traceparent: `00-${trace}-${'b'.repeat(16)}-01` };
    const { run_id: run } = await post(`/v1/agents/${id}/runs`, { input: { message: 'pay later' } }, headers);
    const stands = async () => (await api.call('GET', `/v1/runs/${run}`)).json;
    await waitUntil('it asks', async () => (await stands()).waiting_for?.type === 'approval');
    const [{ id: approval }] = (await api.call('GET', '/v1/approvals?status=pending')).json.approvals;
    await post(`/v1/approvals/${approval}`, { decision: 'approve' });
    const jobs = () => api.log.filter((line) => line['msg'] === 'job' && line['run'] === run);
    await waitUntil('it is logged', () =>
      jobs().some(({ outcome, queue }) => queue === 'turns' && outcome === 'completed'),
    );
    assert.ok(jobs().length >= 3);
    for (const line of jobs()) assert.equal(line['trace_id'], trace, JSON.stringify(line));
    assert.deepEqual(
      server.seen.map((seen) => seen.headers['traceparent']?.slice(3, 35)),
      [trace],
    );
  });
});
