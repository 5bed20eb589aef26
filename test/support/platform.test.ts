import assert from 'node:assert/strict';
import { MODES } from './modes.ts';
import { openTestPlatform } from './platform.ts';

for (const mode of MODES) {
  describe(`A test's platform in ${mode} mode`, () => {
    it('serves a run from the request to the answer with workers and API in one process', async () => {
      const platform = await openTestPlatform(mode, { workers: true, api: true });
      try {
        const headers = { authorization: `Bearer ${platform.apiKey}`, 'content-type': 'application/json' };
        const post = async (path: string, body: unknown) => {
          const response = await fetch(`${platform.url}${path}`, {
            method: 'POST',
            headers,
            body: JSON.stringify(body),
          });
          return (await response.json()) as Record<string, string>;
        };
        const agent = await post('/v1/agents', { name: 'helper', tools: ['calculator'] });
        const run = await post(`/v1/agents/${agent['id']}/runs`, {});
        const turn = await post(`/v1/agents/${agent['id']}/runs/${run['run_id']}/turns`, {
          input: { message: 'What is 6 * 7?' },
        });
        assert.match(JSON.stringify(turn), /"message":"[^"]*42.*"status":"complete"/);
      } finally {
        await platform.close();
      }
    });
  });
}
