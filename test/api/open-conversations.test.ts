import assert from 'node:assert/strict';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { waitUntil } from '../support/wait-until.ts';

describe('The conversation of a turn that is open', () => {
  let api: ScriptedService;
  before(async () => {
    api = await startScriptedService();
  });
  after(() => api.close());

  it('has no result of a call that waits for a person, and has it as soon as there is one', async () => {
    const agent = await api.newAgent(['calculator'], { autonomy_level: 0 });
    const message = 'call calculator {"expression":"6*7"} | say It is done.';
    const { json } = await api.call('POST', `/v1/agents/${agent}/runs`, { body: { input: { message } } });
    const status = async () => (await api.call('GET', `/v1/runs/${json.run_id}`)).json.status;
    await waitUntil('it asks', async () => (await status()) === 'awaiting_human');
    const types = async () => {
      const path = `/v1/threads/${json.thread_id}/conversations`;
      const { messages } = (await api.call('GET', path)).json.conversations[0];
      return messages.flatMap(({ content }: { content: { type: string }[] }) => content.map(({ type }) => type));
    };
    assert.deepEqual(await types(), ['text', 'tool_use']);
    await api.call('POST', `/v1/runs/${json.run_id}/resume`, { body: { decision: { decision: 'approve' } } });
    await waitUntil('it is done', async () => (await status()) === 'completed');
    assert.deepEqual(await types(), ['text', 'tool_use', 'tool_result', 'text']);
  });
});
