import assert from 'node:assert/strict';
import { LIMITS } from '../../core/limits.ts';
import type { TestApi } from '../support/api.ts';
import { cpuMs } from '../support/cpu-time.ts';
import { startFakeAnthropic } from '../support/fake-anthropic.ts';
import { startTestService } from '../support/service.ts';
import { waitUntil } from '../support/wait-until.ts';

describe('an agent whose graph has as many ways as it may', () => {
  let api: TestApi;

  before(async () => {
    api = await startTestService({
      model: await startFakeAnthropic(() => ({ content: [{ type: 'text', text: 'said' }] })),
    });
  });
  after(() => api.close());

  it('goes through its visits without holding up its worker', async () => {
    const names = Array.from({ length: LIMITS.graphNodes }, (_, index) => `n${index}`);
    const workflow_graph = {
      entry_point: 'n0',
      nodes: names.map((name) => ({ name, type: 'router' })),
      edges: names.map((from) => ({ from, to: names.filter((name) => name !== from) })),
    };
    const { json: agent } = await api.call('POST', '/v1/agents', { body: { name: 'dense', workflow_graph } });
    const beforeMs = cpuMs();
    const body = { input: { message: 'Begin' } };
    const { json: started } = await api.call('POST', `/v1/agents/${agent.id}/runs`, { body });
    const read = async () => (await api.call('GET', `/v1/runs/${started.id}`)).json;
    await waitUntil('the run has ended', async () => (await read()).status === 'completed');
    assert.equal((await read()).stop_reason, 'max_steps');
    // It would take minutes to follow all ways for each choice.
    assert.ok(cpuMs() - beforeMs < 100 * LIMITS.graphNodes, `${cpuMs() - beforeMs} ms of CPU`);
  });
});
