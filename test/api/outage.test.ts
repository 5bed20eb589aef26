import assert from 'node:assert/strict';
import { startTestApi } from '../support/api.ts';
import type { TestApi } from '../support/api.ts';
import { MODES } from '../support/modes.ts';

for (const mode of MODES) {
  if (mode === 'embedded') continue;
  describe(`with Postgres away (${mode})`, () => {
    let api: TestApi;
    before(async () => {
      api = await startTestApi(mode, { proxied: true });
    });
    after(() => api.close());

    it('requests are 503 until it is back, and then served without a restart', async () => {
      assert.equal((await api.call('GET', '/v1/agents')).status, 200);
      await api.database?.cut();
      for (const key of [api.key, 'never-seen']) {
        const answer = await api.call('GET', '/v1/agents', { key });
        assert.equal(answer.status, 503, answer.text);
        assert.match(answer.headers.get('retry-after') ?? '', /^\d+$/);
      }
      const created = await api.call('POST', '/v1/agents', {
        body: { name: 'a' },
        headers: { 'idempotency-key': 'k' },
      });
      assert.equal(created.status, 503);
      const ready = await api.call('GET', '/readyz');
      assert.deepEqual([ready.status, ready.json.checks.database], [503, 'away']);
      assert.equal((await api.call('GET', '/healthz')).status, 200);
      assert.equal((await api.call('GET', '/metrics')).status, 200);

      await api.database?.restore();
      await untilTrue('ready again', async () => (await api.call('GET', '/readyz')).status === 200);
      assert.equal((await api.call('GET', '/v1/agents')).status, 200);
      const again = await api.call('POST', '/v1/agents', { body: { name: 'a' }, headers: { 'idempotency-key': 'k' } });
      assert.equal(again.status, 201, again.text);
    }).timeout(60_000);
  });
}

if (MODES.includes('full')) {
  describe('with Redis away', () => {
    let api: TestApi;
    before(async () => {
      api = await startTestApi('full', { proxied: true });
    });
    after(() => api.close());

    it('the process is not ready and says so, answers from the database, and recovers by itself', async () => {
      await api.redis?.cut();
      const ready = await api.call('GET', '/readyz');
      assert.deepEqual([ready.status, ready.json.checks], [503, { database: 'ok', queue: 'away', migrations: 'ok' }]);
      assert.equal((await api.call('GET', '/v1/agents')).status, 200);
      assert.equal((await api.call('GET', '/metrics')).status, 200);
      assert.equal((await api.call('GET', '/admin/queues/api/queues')).status, 503);
      await api.redis?.restore();
      await untilTrue('ready again', async () => (await api.call('GET', '/readyz')).status === 200);
    }).timeout(60_000);
  });
}

async function untilTrue(what: string, holds: () => Promise<boolean>): Promise<void> {
  const endsAt = Date.now() + 30_000;
  while (!(await holds())) {
    if (Date.now() > endsAt) throw new Error(`waited in vain: ${what}`);
  }
}
