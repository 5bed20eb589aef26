import assert from 'node:assert/strict';
import { once } from 'node:events';
import { ROUTES } from '../../api/routes.ts';
import { serve, type RunningApi } from '../../api/serve.ts';
import { loadConfig } from '../../config.ts';
import { listApiKeys } from '../../db/api-keys.ts';
import type { Database } from '../../db/database.ts';
import { openDatabase } from '../../db/open-database.ts';
import { request, startTestApi, type TestApi } from '../support/api.ts';
import { MODES } from '../support/modes.ts';
import { overDatabase } from '../support/over-database.ts';
import { openTestPlatform, type TestPlatform } from '../support/platform.ts';
import { holdTable, makeReadOnly, sessionsWaitingIn } from '../support/queries/postgres.ts';
import { waitUntil } from '../support/wait-until.ts';

const SILENT = { database: 'away', queue: 'away', migrations: 'unknown' };

for (const mode of MODES) {
  if (mode === 'embedded') continue;
  describe(`with Postgres or Redis away (${mode})`, () => {
    let api: TestApi;
    before(async () => {
      api = await startTestApi(mode, { proxied: true });
    });
    after(() => api.close());

    it('requests are 503 until Postgres is back, and then served without a restart', async () => {
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
      await waitUntil('ready again', async () => (await api.call('GET', '/readyz')).status === 200);
      assert.equal((await api.call('GET', '/v1/agents')).status, 200);
      const again = await api.call('POST', '/v1/agents', { body: { name: 'a' }, headers: { 'idempotency-key': 'k' } });
      assert.equal(again.status, 201, again.text);
    }).timeout(60_000);

    it('requests that write are 503 where Postgres takes no writes, and readiness says why, until it does again', async () => {
      await makeReadOnly(api.context.db, true);
      // As after a failover: the connections of before are gone, and new ones come to what is a replica now.
      await api.database?.cut();
      await api.database?.restore();
      const created = await api.call('POST', '/v1/agents', { body: { name: 'b' } });
      assert.equal(created.status, 503, created.text);
      const ready = await api.call('GET', '/readyz');
      assert.deepEqual([ready.status, ready.json.checks.database], [503, 'takes no writes (read-only)']);

      await makeReadOnly(api.context.db, false);
      await waitUntil('ready again', async () => (await api.call('GET', '/readyz')).status === 200);
      const again = await api.call('POST', '/v1/agents', { body: { name: 'b' } });
      assert.equal(again.status, 201, again.text);
    }).timeout(60_000);

    it('readiness is told within its time where neither Postgres nor Redis answers', async () => {
      api.database?.setLatency(20_000);
      api.redis?.setLatency(20_000);
      const sinceMs = performance.now();
      const ready = await api.call('GET', '/readyz');
      const tookMs = performance.now() - sinceMs;
      for (const proxy of [api.database, api.redis]) {
        proxy?.setLatency(0);
        await proxy?.cut();
        await proxy?.restore();
      }
      assert.deepEqual([ready.status, ready.json.checks], [503, SILENT]);
      // Each of the checks takes its two seconds, beside the others.
      assert.ok(tookMs < 3500, `${tookMs} ms`);
      await waitUntil('ready again', async () => (await api.call('GET', '/readyz')).status === 200);
    }).timeout(60_000);

    if (mode !== 'full') return;
    it('the process is not ready where Redis is away and says so, answers from the database, and recovers by itself', async () => {
      await api.redis?.cut();
      const ready = await api.call('GET', '/readyz');
      assert.deepEqual([ready.status, ready.json.checks], [503, { database: 'ok', queue: 'away', migrations: 'ok' }]);
      assert.equal((await api.call('GET', '/v1/agents')).status, 200);
      assert.equal((await api.call('GET', '/metrics')).status, 200);
      // Its pages ask for their data by themselves.
      assert.equal((await api.call('GET', '/admin/queues/')).status, 200);
      assert.equal((await api.call('GET', '/admin/queues/api/queues')).status, 503);
      await api.redis?.restore();
      await waitUntil('ready again', async () => (await api.call('GET', '/readyz')).status === 200);
    }).timeout(60_000);
  });
}

if (MODES.includes('postgres')) {
  describe('with every connection to Postgres in use', () => {
    let platform: TestPlatform;
    let db: Database;
    let api: RunningApi;
    before(async () => {
      platform = await openTestPlatform('postgres');
      const config = loadConfig({ ...platform.env, DROVER_POOL_SIZE: '1' });
      db = await openDatabase(config, { checkoutTimeoutMs: 400 });
      api = await serve(overDatabase(platform.context, db), ROUTES, { host: '127.0.0.1', port: 0 });
    });
    after(async () => {
      await api?.close(1000);
      await db?.close();
      await platform?.close();
    });

    it('requests are 503 after a while, which says what it is and when to come again, and the process is ready', async () => {
      const get = (path: string) => request(`${api.url}${path}`, 'GET', { key: platform.apiKey });
      assert.equal((await get('/v1/agents')).status, 200);
      const over = new AbortController();
      const busy = db.withTenant(platform.tenantId, async (tx) => {
        while (!over.signal.aborted) await listApiKeys(tx, { limit: 1 });
      });
      try {
        const [answer, ready] = await Promise.all([get('/v1/agents'), get('/readyz')]);
        assert.equal(answer.status, 503, answer.text);
        assert.match(answer.json.detail, /^Too many requests/);
        assert.match(answer.headers.get('retry-after') ?? '', /^\d+$/);
        assert.deepEqual([ready.status, ready.json.checks.database], [200, 'ok']);
      } finally {
        over.abort();
        await busy;
      }
      assert.equal((await get('/v1/agents')).status, 200);
    });

    it('the process is ready where nobody is answered, since all wait for what others have locked', async () => {
      const { context, apiKey: key } = platform;
      const over = new AbortController();
      const end = once(over.signal, 'abort');
      const waiting: Promise<unknown>[] = [];
      try {
        // The lock ends with the session that has it.
        await context.db.asOwner(async (holder) => {
          await holdTable(holder, 'agents');
          waiting.push(request(`${api.url}/v1/agents`, 'POST', { key, body: { name: 'late' } }));
          await waitUntil('it waits', async () => (await sessionsWaitingIn(context.db, 'agents')).length > 0);
          for (let each = 0; each < 4; each++) waiting.push(db.asMaintenance(() => end));
          const ready = await request(`${api.url}/readyz`, 'GET', { key });
          assert.deepEqual([ready.status, ready.json.checks?.database], [200, 'ok'], ready.text);
        });
      } finally {
        over.abort();
        await Promise.allSettled(waiting);
      }
    });
  });
}
