/** Endpoints that take a request and never answer: they cost whoever has them, and nobody else. */
import assert from 'node:assert/strict';
import { LIMITS } from '../../core/limits.ts';
import { request } from '../support/api.ts';
import { startServer, type LocalServer } from '../support/echo-server.ts';
import { DOMAIN_MODES } from '../support/modes.ts';
import { openTestPlatform, type TestPlatform } from '../support/platform.ts';
import { waitUntil } from '../support/wait-until.ts';

const HOOKS_EACH = 45;

for (const mode of DOMAIN_MODES) {
  describe(`With tenants whose webhooks never answer, in ${mode} mode`, function () {
    let platform: TestPlatform;
    let tarpit: LocalServer;
    let receiver: LocalServer;
    const asked = { now: 0, most: 0 };

    before(async () => {
      tarpit = await startServer(({ socket }) => {
        asked.most = Math.max(asked.most, ++asked.now);
        socket.once('close', () => (asked.now -= 1));
      });
      receiver = await startServer((_request, response) => response.end());
      const env = { DROVER_EGRESS_ALLOW: '127.0.0.1' };
      platform = await openTestPlatform(mode, { workers: true, api: true, env });
    });
    after(async () => {
      // Whatever is still asked ends with the endpoint.
      await tarpit.close();
      await platform.close();
      await receiver.close();
    });

    const post = async (key: string, path: string, body: unknown) => {
      const answer = await request(`${platform.url}${path}`, 'POST', { key, body });
      assert.ok(answer.status < 300, `${path}: ${answer.text}`);
      return answer.json;
    };
    const newTenant = async (url: string, hooks: number) => {
      const { key } = await post(platform.apiKey, '/v1/tenants', { name: `with ${hooks} hooks` });
      const { id: agent } = await post(key, '/v1/agents', { name: 'told of' });
      for (let n = 0; n < hooks; n += 1) await post(key, '/v1/webhooks', { url, events: ['run.created'] });
      return { start: () => post(key, `/v1/agents/${agent}/runs`, {}) };
    };

    it('another tenant hears of its event while theirs are still being asked for the first time', async () => {
      const slow = [await newTenant(tarpit.url, HOOKS_EACH), await newTenant(tarpit.url, HOOKS_EACH)];
      const other = await newTenant(receiver.url, 1);
      for (const { start } of slow) await start();
      const allowed = slow.length * LIMITS.webhooksAtOnce;
      await waitUntil('as many are asked as may be', () => tarpit.seen.length >= allowed);
      await other.start();
      await waitUntil('the other one hears', () => receiver.seen.length > 0);
      // One that was given up may be seen to close only after the next one was asked.
      assert.ok(asked.most < 2 * allowed, `${asked.most} were asked at a time`);
    });
  });
}
