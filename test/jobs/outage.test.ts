import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { Redis } from 'ioredis';
import { loadConfig, type Config } from '../../config.ts';
import type { Database } from '../../db/database.ts';
import { openDatabase } from '../../db/open-database.ts';
import { openQueueBackend, type QueueBackend } from '../../jobs/backend.ts';
import { createMigratedDatabase } from '../support/database.ts';
import { MODES, TEST_REDIS_URL } from '../support/modes.ts';
import { openServiceProxy, type ServiceProxy } from '../../scripts/kit/service-proxy.ts';

for (const mode of MODES.filter((each) => each !== 'embedded')) {
  describe(`a queue in ${mode} mode whose service goes away`, () => {
    let testDatabase: Awaited<ReturnType<typeof createMigratedDatabase>>;
    let proxy: ServiceProxy;
    let config: Config;
    let database: Database;
    let backend: QueueBackend;
    const reports: string[] = [];

    before(async () => {
      testDatabase = await createMigratedDatabase();
      proxy = await openServiceProxy(mode === 'full' ? (TEST_REDIS_URL ?? '') : testDatabase.url);
      config = loadConfig({
        DROVER_SECRET_KEY: 'the tests have no secrets',
        DATABASE_URL: mode === 'full' ? testDatabase.url : proxy.url,
        REDIS_URL: mode === 'full' ? proxy.url : '',
        DROVER_QUEUE_PREFIX: new URL(testDatabase.url).pathname.slice(1),
        DROVER_LEASE_MS: '1000',
      });
      database = await openDatabase(config);
      backend = await openQueueBackend(config, database, (error, source) => {
        reports.push(`${source} ${error.message}`);
      });
    });

    after(async () => {
      await backend.close(0);
      await database.close();
      await proxy.close();
      await testDatabase.drop();
    });

    it('refuses new jobs soon, and takes them and works again when it is back, also on queues made meanwhile', async () => {
      const early = backend.queue('early');
      await early.add('work', {}, { jobId: 'before' });
      const done: string[] = [];
      const worker = backend.worker('early', async (job) => {
        done.push(String(job.id));
      });
      await once(worker, 'completed');

      await proxy.cut();
      const late = backend.queue('late');
      const start = Date.now();
      await assert.rejects(early.add('work', {}, { jobId: 'meanwhile' }));
      await assert.rejects(late.add('work', {}, { jobId: 'meanwhile' }));
      await assert.rejects(backend.flowProducer().add({ name: 'work', queueName: 'late' }));
      await assert.rejects(backend.ping(500));
      assert.ok(Date.now() - start < 15_000, `${Date.now() - start} ms`);

      await proxy.restore();
      const addUntilTaken = async (add: () => Promise<unknown>): Promise<void> => {
        // The connection may need a moment; the API's clients would try again too.
        for (;;) {
          const taken = await add().then(
            () => true,
            () => false,
          );
          if (taken) return;
          await once(AbortSignal.timeout(50), 'abort');
        }
      };
      await addUntilTaken(() => late.add('work', {}, { jobId: 'after' }));
      const worked = once(worker, 'completed');
      await addUntilTaken(() => early.add('work', {}, { jobId: 'after' }));
      await worked;
      assert.deepEqual(done, ['before', 'after']);
      assert.equal((await late.getJobCounts('waiting')).waiting, 1);
      await backend.ping(1000);
    });

    it('has reported it without flooding', () => {
      // BullMQ does not tell of a refused connection to Postgres; the database's own `onError` does.
      if (mode === 'full') assert.ok(reports.length > 0);
      assert.ok(reports.length < 40, reports.join('\n'));
    });

    if (mode === 'full') {
      it('is not usable where Redis answers and takes no writes', async () => {
        const redis = new Redis(TEST_REDIS_URL ?? '');
        const reader = `reader-${randomUUID()}`;
        await redis.call('ACL', 'SETUSER', reader, 'on', '>secret', '~*', '&*', '+@all', '-set');
        const url = new URL(TEST_REDIS_URL ?? '');
        [url.username, url.password] = [reader, 'secret'];
        const own = await openQueueBackend({ ...config, redisUrl: url.href }, database);
        await assert.rejects(own.ping(2000), { name: 'RefusesWritesError', message: 'takes no writes (NOPERM)' });
        await own.close();
        await redis.call('ACL', 'DELUSER', reader);
        await redis.quit();
      });

      it('opens without its Redis, refuses, and works when Redis has come', async () => {
        await proxy.cut();
        const own = await openQueueBackend(config, database);
        const queue = own.queue('unborn');
        await assert.rejects(queue.add('work', {}));
        const worker = own.worker('unborn', async () => 'done');
        await proxy.restore();
        const worked = once(worker, 'completed');
        for (;;) {
          const taken = await queue.add('work', {}).then(
            () => true,
            () => false,
          );
          if (taken) break;
          await once(AbortSignal.timeout(50), 'abort');
        }
        await worked;
        await own.close();
      });
    }
  });
}
