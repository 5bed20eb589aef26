import assert from 'node:assert/strict';
import type { TestApi } from '../support/api.ts';
import { startTestService } from '../support/service.ts';

describe('the stream of a run that fails', () => {
  let api: TestApi;

  before(async () => {
    api = await startTestService();
  });
  after(() => api.close());

  it('tells it as turn_error and done, never as an event that EventSource takes for its own', async () => {
    const { json: agent } = await api.call('POST', '/v1/agents', { body: { name: 'poor' } });
    const body = { input: { message: 'What is 1+1?' }, config: { budget: { max_tokens: 1 } } };
    const { json } = await api.call('POST', `/v1/agents/${agent.id}/runs`, { body });
    const { text } = await api.call('GET', `/v1/runs/${json.run_id}/stream`);
    const names = [...text.matchAll(/^event: (.*)$/gm)].map(([, name]) => name);
    assert.ok(names.includes('turn_error') && !names.includes('error'), text);
    assert.match(text, /^event: done\ndata: \{"status":"failed"/m);
    assert.match(text, /^event: turn_error\ndata: \{"error":\{"code":"/m);
  });
});
