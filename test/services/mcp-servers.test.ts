import assert from 'node:assert/strict';
import { startEverything, type EverythingServer } from '../support/mcp-server-everything.ts';
import { MODES } from '../support/modes.ts';
import { openTestPlatform, type TestPlatform } from '../support/platform.ts';
import { startScriptedModel, type ScriptedModel } from '../support/scripted-model.ts';

for (const mode of MODES) {
  describe(`a run with the tools of an MCP server in ${mode} mode`, () => {
    let model: ScriptedModel;
    let platform: TestPlatform;
    let server: EverythingServer;

    before(async () => {
      model = await startScriptedModel();
      server = await startEverything('streamableHttp');
      platform = await openTestPlatform(mode, {
        workers: true,
        api: true,
        env: { ANTHROPIC_API_KEY: 'test', ANTHROPIC_BASE_URL: model.url, DROVER_EGRESS_ALLOW: '127.0.0.1' },
      });
    });
    after(async () => {
      await platform.close();
      await server.kill();
      await model.close();
    });

    async function post(path: string, body: unknown) {
      const response = await fetch(`${platform.url}${path}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${platform.apiKey}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
      assert.ok(response.ok, `${path}: ${response.status}`);
      return response;
    }

    it('shows on its stream how far a call is, without an id, and stores nothing of it', async () => {
      await post('/v1/tools/import', { transport: { type: 'http', endpoint: server.url }, trusted: true });
      const tools = ['trigger-long-running-operation'];
      const { id } = (await (await post('/v1/agents', { name: 'patient', tools })).json()) as { id: string };
      const { run_id: run } = (await (await post(`/v1/agents/${id}/runs`, {})).json()) as { run_id: string };
      const message = 'call trigger-long-running-operation {"duration": 1.5, "steps": 5}';
      const text = await (await post(`/v1/runs/${run}/turns/stream`, { input: { message } })).text();
      const blocks = text.split('\n\n').filter((block) => block.includes('event: tool_progress'));
      assert.ok(blocks.length >= 3, text);
      assert.ok(blocks.every((block) => !/^id:/m.test(block)));
      assert.match(blocks[0] ?? '', /"tool":"trigger-long-running-operation".*"progress":1,"total":5/);
      assert.match(text, /Long running operation completed/);
    });
  });
}
