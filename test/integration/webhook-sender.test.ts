/** A sender of webhooks is killed while the receiver has the request: another one sends it again, the same. */
import assert from 'node:assert/strict';
import { Webhook } from 'standardwebhooks';
import { createTestDatabase } from '../support/database.ts';
import { startServer, type LocalServer } from '../support/echo-server.ts';
import { startInstallation, type Installation } from '../support/installation.ts';
import { DOMAIN_MODES } from '../support/modes.ts';
import { waitUntil } from '../support/wait-until.ts';
import { makeDeliveriesDue } from '../support/queries/webhooks.ts';

/** What docs/webhooks.md promises, with the lease of runs that is the default. */
const AGAIN_WITHIN_MS = 20_000;

for (const mode of DOMAIN_MODES.filter((each) => each !== 'embedded')) {
  describe(`with a sender of webhooks that dies, in ${mode} mode`, () => {
    let drover: Installation;
    let receiver: LocalServer;
    let testDatabase: Awaited<ReturnType<typeof createTestDatabase>>;

    before(async () => {
      testDatabase = await createTestDatabase();
      receiver = await startServer((_request, response) => {
        // The first one hears nothing until it is dead.
        if (receiver.seen.length > 1) response.end();
      });
      drover = await startInstallation(mode, { workers: ['one'], databaseUrl: testDatabase.url });
    });
    after(async () => {
      await drover?.close();
      await receiver.close();
      await testDatabase.drop();
    });

    it('delivers after kill -9 in the middle of a delivery, with the same id and a signature that holds', async () => {
      const post = async (path: string, body: unknown) => (await drover.call('POST', path, { body })).json;
      const hook = await post('/v1/webhooks', { url: `${receiver.url}/hook`, events: ['run.created'] });
      const { id: agent } = await post('/v1/agents', { name: 'told of' });
      await post(`/v1/agents/${agent}/runs`, {});
      const delivery = async () => {
        const { json } = await drover.call('GET', `/v1/webhooks/${hook.id}/deliveries`);
        assert.equal(json.deliveries.length, 1);
        return json.deliveries[0];
      };
      await waitUntil('the delivery is under way', () => receiver.seen.length === 1);
      assert.deepEqual(await drover.end('one', 'SIGKILL'), [null, 'SIGKILL']);
      const diedAtMs = performance.now();
      const left = await delivery();
      assert.deepEqual([left.status, left.attempts], ['pending', 1]);
      // What the dead one held is free after its time, which the test does not wait for.
      await makeDeliveriesDue(testDatabase.url);
      await drover.start('one');
      await waitUntil('it is delivered', async () => (await delivery()).status === 'delivered');
      const againMs = performance.now() - diedAtMs;
      assert.ok(againMs < AGAIN_WITHIN_MS, `after ${againMs} ms`);
      assert.equal((await delivery()).attempts, 2);
      const [first, second, ...more] = receiver.seen;
      assert.ok(first && second && more.length === 0);
      assert.equal(second.headers['webhook-id'], first.headers['webhook-id']);
      assert.equal(second.body, first.body);
      for (const { body, headers } of [first, second]) {
        new Webhook(hook.secret).verify(body, headers as Record<string, string>);
      }
    });
  });
}
