import assert from 'node:assert/strict';
import { once } from 'node:events';
import { DelayedError, type Job, type Worker } from 'bullmq';
import { openQueueBackend, workerTimes, type QueueBackend } from '../../jobs/backend.ts';
import { createFairOrder, ROUND_MS } from '../../jobs/fair-order.ts';
import { renewPriorities } from '../../jobs/renew-priorities.ts';
import { openTestDatabase, type TestDatabase } from '../support/database.ts';
import { MODES } from '../support/modes.ts';

const ROUND_END = 850 * ROUND_MS;

describe('worker times', () => {
  it('renew a lock every third of a lease and look for stalled jobs twice a lease', () => {
    assert.deepEqual(workerTimes(30_000), { lockDuration: 30_000, lockRenewTime: 10_000, stalledInterval: 15_000 });
  });
});

for (const mode of MODES) {
  describe(`the queue in ${mode} mode`, () => {
    let testDatabase: TestDatabase;
    let backend: QueueBackend;
    const errors: string[] = [];

    before(async () => {
      testDatabase = await openTestDatabase(mode, { DROVER_LEASE_MS: '600' });
      backend = await openQueueBackend(testDatabase.config, testDatabase.database, (error, source) => {
        errors.push(`${source}: ${error.message}`);
      });
    });

    after(async () => {
      await backend.close(0);
      await testDatabase.close();
      assert.deepEqual(errors, []);
    });

    it('says where it runs', () => {
      assert.equal(backend.kind, mode === 'full' ? 'redis' : 'postgres');
    });

    it('answers a ping', () => backend.ping(2000));

    it('gives the same queue for the same name', () => {
      assert.equal(backend.queue('same'), backend.queue('same'));
      assert.equal(backend.flowProducer(), backend.flowProducer());
    });

    it('keeps one job for one id, however often it is added', async () => {
      const queue = backend.queue('idempotent');
      await Promise.all([1, 2, 3].map((n) => queue.add('work', { n }, { jobId: 'run-1-0' })));
      await queue.addBulk([1, 2].map((n) => ({ name: 'work', data: { n }, opts: { jobId: 'run-1-0' } })));
      assert.equal((await queue.getJobCounts('waiting')).waiting, 1);
    });

    it('counts jobs by state and removes one by its id', async () => {
      const queue = backend.queue('counted');
      await queue.add('work', {}, { jobId: 'a' });
      await queue.add('work', {}, { jobId: 'b' });
      await queue.add('work', {}, { jobId: 'later', delay: 60_000 });
      const counts = await queue.getJobCounts('waiting', 'delayed', 'active', 'failed');
      assert.deepEqual(counts, { waiting: 2, delayed: 1, active: 0, failed: 0 });
      assert.equal(await queue.remove('a'), 1);
      assert.equal(await queue.getJob('a'), undefined);
      assert.equal((await queue.getJob('b'))?.id, 'b');
      assert.equal((await queue.getJobCounts('waiting')).waiting, 1);
    });

    it('tells the states of many jobs in their order, and which of them it does not have', async () => {
      const queue = backend.queue('asked');
      await queue.add('work', {}, { jobId: 'a' });
      await queue.add('work', {}, { jobId: 'later', delay: 60_000 });
      const states = await backend.states('asked', ['later', 'lost', 'a', 'gone']);
      assert.deepEqual(states, ['delayed', 'unknown', 'waiting', 'unknown']);
    });

    it('runs a flow’s parent after its children, also when one fails for good', async () => {
      const order: string[] = [];
      const children = backend.worker('children', async (job) => {
        order.push(`child ${job.id}`);
        if (job.id === 'c2') throw new Error('broken');
        return job.id;
      });
      const parents = backend.worker('parents', async (job) => {
        order.push(`parent ${job.id}`);
      });
      const done = once(parents, 'completed');
      const opts = { ignoreDependencyOnFailure: true, attempts: 1 };
      await backend.flowProducer().add({
        name: 'parent',
        queueName: 'parents',
        opts: { jobId: 'p1' },
        children: ['c1', 'c2', 'c3'].map((jobId) => ({
          name: 'child',
          queueName: 'children',
          opts: { ...opts, jobId },
        })),
      });
      await done;
      assert.deepEqual(order.toSorted(), ['child c1', 'child c2', 'child c3', 'parent p1']);
      assert.equal(order.at(-1), 'parent p1');
      assert.equal(await backend.queue('children').getFailedCount(), 1);
      await Promise.all([children.close(), parents.close()]);
    });

    it('puts a job off, and takes it up again when it is due', async () => {
      const starts: number[] = [];
      const worker: Worker = backend.worker('put-off', async (job: Job, token?: string) => {
        starts.push(Date.now());
        if (starts.length > 1) return;
        await job.moveToDelayed(Date.now() + 150, token);
        throw new DelayedError();
      });
      const done = once(worker, 'completed');
      await backend.queue('put-off').add('work', {}, { attempts: 1 });
      await done;
      const [first = 0, second = 0] = starts;
      assert.equal(starts.length, 2);
      assert.ok(second - first >= 140, `after ${second - first} ms`);
      await worker.close();
    });

    it('tells a job by its signal that its worker cannot wait any longer', async () => {
      const own = await openQueueBackend(testDatabase.config, testDatabase.database);
      let started: () => void = () => undefined;
      const running = new Promise<void>((resolve) => {
        started = resolve;
      });
      let reason: unknown;
      const worker = own.worker('slow', async (_job: Job, _token?: string, signal?: AbortSignal) => {
        started();
        await once(signal ?? new EventTarget(), 'abort');
        reason = signal?.reason;
      });
      worker.on('failed', () => undefined);
      await own.queue('slow').add('work', {});
      await running;
      await own.close(50);
      assert.match(String(reason), /shutting down/);
    });

    it('closes in bounded time even where a job ignores its signal, and another worker gets the job', async () => {
      const own = await openQueueBackend(testDatabase.config, testDatabase.database);
      let started: () => void = () => undefined;
      const running = new Promise<void>((resolve) => {
        started = resolve;
      });
      let end: () => void = () => undefined;
      own.worker('deaf', async () => {
        started();
        await new Promise<void>((resolve) => {
          end = resolve;
        });
      });
      await own.queue('deaf').add('work', {}, { jobId: 'once-more' });
      await running;
      const before = Date.now();
      await own.close(50);
      assert.ok(Date.now() - before < 30_000);
      const worker = backend.worker('deaf', async (job) => job.id);
      const [job] = (await once(worker, 'completed')) as [Job];
      assert.equal(job.id, 'once-more');
      end();
      await worker.close();
    });

    it('gives the job of a dead worker to another one as soon as its lock allows, however long leases are', async () => {
      const config = { ...testDatabase.config, leaseMs: 600_000 };
      const settings = { mostLockMs: 600 };
      const successor = await openQueueBackend(config, testDatabase.database);
      const dead = await openQueueBackend(config, testDatabase.database);
      let started: () => void = () => undefined;
      const running = new Promise<void>((resolve) => {
        started = resolve;
      });
      let end: () => void = () => undefined;
      const held = async () => {
        started();
        await new Promise<void>((resolve) => {
          end = resolve;
        });
      };
      dead.worker('routine', held, settings);
      await dead.queue('routine').add('work', {}, { jobId: 'act' });
      await running;
      await dead.close(0);
      const worker = successor.worker('routine', async (job) => job.id, settings);
      const [job] = (await once(worker, 'completed', { signal: AbortSignal.timeout(30_000) })) as [Job];
      assert.equal(job.id, 'act');
      end();
      await successor.close();
    });

    if (mode === 'embedded') {
      it('gives the jobs of a dead process to its successor at once, since there was only one', async () => {
        const config = { ...testDatabase.config, leaseMs: 60_000 };
        const dead = await openQueueBackend(config, testDatabase.database);
        let started: () => void = () => undefined;
        const running = new Promise<void>((resolve) => {
          started = resolve;
        });
        let end: () => void = () => undefined;
        dead.worker('inherited', async () => {
          started();
          await new Promise<void>((resolve) => {
            end = resolve;
          });
        });
        await dead.queue('inherited').add('work', {}, { jobId: 'heirloom' });
        await running;
        await dead.close(0);
        const successor = await openQueueBackend(config, testDatabase.database);
        const worker = successor.worker('inherited', async (job) => job.id);
        const [job] = (await once(worker, 'completed', { signal: AbortSignal.timeout(10_000) })) as [Job];
        assert.equal(job.id, 'heirloom');
        end();
        await successor.close();
      });
    }

    it('takes what has waited while priorities begin again before all that was sent afterwards, in its order', async () => {
      const queue = backend.queue('rounds');
      let now = ROUND_END - 5000;
      const order = createFairOrder(() => now);
      const send = (id: string, tenant: string) => queue.add('work', {}, { jobId: id, priority: order.next(tenant) });
      for (let n = 1; n <= 12; n++) await send(`old-${String(n).padStart(2, '0')}`, 'flood');
      now = ROUND_END + 2000;
      await send('new-1', 'other');
      assert.equal(await renewPriorities(queue, now), 12);
      await send('new-2', 'other');
      const waiting = await queue.getPrioritized();
      assert.deepEqual(
        waiting.map(({ id }) => id),
        [...Array.from({ length: 12 }, (_, n) => `old-${String(n + 1).padStart(2, '0')}`), 'new-1', 'new-2'],
      );
      assert.equal(await renewPriorities(queue, now), 0, 'those of this round stay where they are');
    });
  });
}
