/** What a worker is told of its jobs, and how it stops. */
import assert from 'node:assert/strict';
import { DelayedError, type Processor, type Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { openQueueBackend } from '../../jobs/backend.ts';
import { MAINTENANCE } from '../../jobs/maintenance.ts';
import { RECURRING_JOB_OPTIONS } from '../../jobs/options.ts';
import { TURNS } from '../../jobs/turns.ts';
import type { Context } from '../../modules/governance/context.ts';
import { createClosers } from '../../modules/platform/closers.ts';
import { maintain } from '../../modules/platform/maintain.ts';
import { startWorkers, type Workers } from '../../workers/start-workers.ts';
import { door, openEngine, text, use, type Engine } from '../support/engine.ts';
import { MODES, MUST_BE_COMPLETE } from '../support/modes.ts';
import { startOwnRedis } from '../support/own-redis.ts';
import { openTestPlatform } from '../support/platform.ts';
import { waitUntil } from '../support/wait-until.ts';
import { ageOutbox, clearAgedJob } from '../support/queries/outbox.ts';
import { statusOfRun, storedRun } from '../support/queries/runs.ts';

for (const mode of MODES) {
  describe(`Workers in ${mode} mode`, () => {
    let engine: Engine;
    let workers: Workers | undefined;
    before(async () => {
      engine = await openEngine(mode);
    });
    afterEach(async () => {
      await workers?.stop(5000);
      workers = undefined;
    });
    after(() => engine.close());

    /** Its job is in the queue before anybody could drive it without one. */
    const startQueued = async (agentId: string) => {
      const queue = engine.context.queues.queue(TURNS.name);
      const { run } = await engine.start(agentId, 'hello');
      await waitUntil('its job is there', async () => (await queue.getJobCountByTypes('prioritized', 'waiting')) > 0);
      return run;
    };

    /** The first answer of the model waits at a door. Threads of other tests may get their titles meanwhile. */
    const heldAnswer = (answer: ReturnType<typeof text>) => {
      const asked = door();
      let isFirst = true;
      engine.say(async (request) => {
        if (!isFirst || JSON.stringify(request).includes('submit_title')) return text('done');
        isFirst = false;
        await asked.pass();
        return answer;
      });
      return asked;
    };

    it('stop in time, whatever an act does that goes on', async () => {
      const { context } = engine;
      const end = door();
      let hasBegun = false;
      const outbox: Context['outbox'] = {
        ...context.outbox,
        async sweep() {
          hasBegun = true;
          await end.pass();
          return 0;
        },
      };
      await ageOutbox(engine, 1);
      const deaf = await startWorkers({ ...context, outbox });
      await waitUntil('the act has begun', async () => hasBegun);
      await clearAgedJob(engine);
      const sinceMs = performance.now();
      await deaf.stop(100);
      assert.ok(performance.now() - sinceMs < 15_000);
      end.open();
    });

    it('stop before the process gives them up, and say what has not ended', async () => {
      const queue = engine.context.queues.queue(TURNS.name);
      const getMeta = queue.getMeta.bind(queue);
      const end = door();
      const own = await startWorkers(engine.context);
      queue.getMeta = () => end.pass().then(getMeta);
      await end.reached;
      const closers = createClosers((error) => assert.fail(String(error)));
      closers.add('workers', () => own.stop(100), { graceMs: 100 });
      await closers.close();
      const late = engine.platform.log.filter(({ msg }) => msg === 'workers stopped late');
      assert.match(JSON.stringify(late), /not ended, and left to others: holds/);
      end.open();
      queue.getMeta = getMeta;
    });

    it('take up an act of maintenance whose worker has died, long before a lease is over', async () => {
      const { config, db, queues } = engine.context;
      const dead = await openQueueBackend(config, db);
      const act = door();
      dead.worker(MAINTENANCE.name, () => act.pass(), { mostLockMs: MAINTENANCE.mostLockMs });
      const queue = queues.queue(MAINTENANCE.name);
      const left = { act: 'end-waits', of: 'the dead' };
      await queue.add(left.act, left, { ...RECURRING_JOB_OPTIONS, jobId: left.act });
      await act.reached;
      await dead.close(0);
      const sinceMs = performance.now();
      workers = await startWorkers(engine.context);
      await waitUntil('it was carried out', async () => (await queue.getJob(left.act))?.data.of !== left.of);
      const tookMs = performance.now() - sinceMs;
      assert.ok(tookMs < config.leaseMs / 2, `after ${tookMs} ms`);
      act.open();
    });

    it('put back as it is what a queue brings while they stop', async () => {
      const { context } = engine;
      let handle: Processor | undefined;
      const worker: Context['queues']['worker'] = (name, process, settings) => {
        if (name === TURNS.name) handle = process as Processor;
        return context.queues.worker(name, process, settings);
      };
      const stopped = await startWorkers({ ...context, queues: { ...context.queues, worker } });
      await stopped.stop(5000);
      engine.say([text('done')]);
      const run = await startQueued(await engine.agent());
      const { fence } = await storedRun(engine, run);
      const waiting = context.queues.worker(TURNS.name, async () => undefined, { autorun: false });
      const job = await waiting.getNextJob('late', { block: false });
      assert.equal((job?.data as { runId?: string } | undefined)?.runId, run);
      await assert.rejects(async () => handle?.(job, 'late'), DelayedError);
      await waiting.close();
      assert.equal((await storedRun(engine, run)).fence, fence, 'nobody has claimed the run');
      workers = await startWorkers(context);
      await waitUntil('another drives it', async () => (await statusOfRun(engine, run)) === 'completed');
    });

    it('break off nothing where the lock of a job is lost: its run is yielded at the next step', async () => {
      const { context } = engine;
      let turns: Worker | undefined;
      const worker: Context['queues']['worker'] = (name, process, settings) => {
        const made = context.queues.worker(name, process, settings);
        if (name === TURNS.name) turns = made as Worker;
        return made;
      };
      const asked = heldAnswer(use({ name: 'calculator', input: { expression: '1 + 1' } }));
      const run = await startQueued(await engine.agent({ tools: ['calculator'] }));
      const queue = context.queues.queue(TURNS.name);
      workers = await startWorkers({ ...context, queues: { ...context.queues, worker } });
      await asked.reached;
      const ids = (await queue.getActive()).flatMap(({ id }) => id ?? []);
      turns?.emit('lockRenewalFailed', ids);
      const { fence } = await storedRun(engine, run);
      asked.open();
      await waitUntil('the run is done', async () => (await statusOfRun(engine, run)) === 'completed');
      const asks = (await engine.log(run)).filter(({ type }) => type === 'model.called');
      assert.equal(asks.length, 2, 'nothing is asked twice');
      assert.ok((await storedRun(engine, run)).fence > fence, 'another drive has claimed it');
    });

    it('give work all of the time that they are given before they break it off, and leave it to others', async () => {
      const asked = heldAnswer(text('done'));
      const run = await startQueued(await engine.agent());
      const stopping = await startWorkers(engine.context);
      await asked.reached;
      const sinceMs = performance.now();
      await stopping.stop(1500);
      const tookMs = performance.now() - sinceMs;
      assert.ok(tookMs >= 1490 && tookMs < 10_000, `${tookMs} ms`);
      asked.open();
      workers = await startWorkers(engine.context);
      await waitUntil('another has driven it', async () => (await statusOfRun(engine, run)) === 'completed');
    });
  });
}

describe('A worker whose Redis may evict jobs', () => {
  it('says so once at its start, in its log, with what to set, and again where that has changed', async function () {
    if (!MODES.includes('full')) return this.skip();
    const redis = await startOwnRedis('allkeys-lru');
    if (redis === undefined) {
      assert.ok(!MUST_BE_COMPLETE, 'Redis is not installed here');
      return this.skip();
    }
    const platform = await openTestPlatform('full', { env: { REDIS_URL: redis.url }, workers: true });
    const told = () => platform.log.filter(({ msg }) => /maxmemory-policy to noeviction/.test(String(msg)));
    const look = () => maintain(platform.context, 'look-at-queues');
    assert.deepEqual(
      told().map(({ level, policy }) => [level, policy]),
      [[40, 'allkeys-lru']],
    );
    const admin = new Redis(redis.url);
    await look();
    await admin.config('SET', 'maxmemory-policy', 'noeviction');
    await look();
    assert.equal(told().length, 1);
    await admin.config('SET', 'maxmemory-policy', 'volatile-lru');
    await look();
    assert.equal(told().at(-1)?.['policy'], 'volatile-lru');
    await admin.quit();
    await platform.close();
    await redis.close();
  });
});
