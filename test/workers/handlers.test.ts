import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Redis } from 'ioredis';
import { DEFAULT_TENANT_ID } from '../../modules/tenants/bootstrap.ts';
import { ZodError } from 'zod';
import type { Context } from '../../modules/governance/context.ts';
import { LIMITS } from '../../core/limits.ts';
import { FileStoreError } from '../../lib/file-store.ts';
import { newId } from '../../lib/new-id.ts';
import { storeAway } from '../../modules/files/content.ts';
import { MAINTENANCE } from '../../jobs/maintenance.ts';
import { RECURRING_JOB_OPTIONS } from '../../jobs/options.ts';
import { TURNS } from '../../jobs/turns.ts';
import { WEBHOOKS } from '../../jobs/webhooks.ts';
import { reconcile } from '../../modules/run-log/reconcile.ts';
import { CONTRACTS } from '../../jobs/contracts.ts';
import { handleJob } from '../../workers/handle-job.ts';
import type { Handler } from '../../workers/handler.ts';
import { handler as maintenance } from '../../workers/handlers/maintenance.ts';
import { handler as toolCalls } from '../../workers/handlers/tool-calls.ts';
import { handler } from '../../workers/handlers/turns.ts';
import { handler as webhooks } from '../../workers/handlers/webhooks.ts';
import { loadHandlers } from '../../workers/load-handlers.ts';
import { startWorkers } from '../../workers/start-workers.ts';
import { offered, openEngine, text, use, type Engine } from '../support/engine.ts';
import { MODES, TEST_REDIS_URL } from '../support/modes.ts';
import { openTestPlatform } from '../support/platform.ts';
import { waitUntil } from '../support/wait-until.ts';
import { statusOfRun } from '../support/queries/runs.ts';

for (const mode of MODES) {
  describe(`A job of a newer build in ${mode} mode`, () => {
    let engine: Engine;
    before(async () => {
      engine = await openEngine(mode);
    });
    after(() => engine.close());

    for (const [starts, state] of [
      [1, 'delayed'],
      [LIMITS.putBacks + 1, 'failed'],
    ] as const) {
      it(`is ${state} at its start number ${starts}, and its run is not`, async () => {
        const { context } = engine;
        const queue = context.queues.queue(TURNS.name);
        const { run } = await engine.start(await engine.agent(), 'hello');
        const jobOf = async () =>
          (await queue.getJobs(['prioritized', 'waiting'])).find(({ data }) => data.runId === run);
        await waitUntil('its job is there', async () => (await jobOf()) !== undefined);
        const sent = await jobOf();
        assert.ok(sent?.id);
        await sent.remove();
        await queue.add(TURNS.name, { ...sent.data, version: 2 }, { jobId: sent.id });
        const duty = { stop: new AbortController().signal, draining: () => false };
        const worker = context.queues.worker(TURNS.name, (job, token) => {
          job.attemptsStarted = starts;
          return handleJob(context, handler, { ...duty, job, token });
        });
        const stateOf = async () => (await queue.getJob(sent.id ?? ''))?.getState();
        await waitUntil(`it is ${state}`, async () => (await stateOf()) === state);
        await worker.close();
        const isOfJob = ({ job, msg }: Record<string, unknown>) =>
          job === sent.id && String(msg).startsWith('a job of a newer build is put back');
        const told = engine.platform.log.filter(isOfJob);
        assert.deepEqual(
          told.map(({ level }) => level),
          starts === 1 ? [40] : [],
          'once in a while, not each time',
        );
        assert.equal((await reconcile(context, 0)).turns, state === 'failed' ? 1 : 0);
        if (state === 'failed') {
          const { tenantId, seq } = sent.data;
          assert.deepEqual((await jobOf())?.data, { tenantId, runId: run, seq }, 'of this build');
        }
        assert.equal(await statusOfRun(engine, run), 'created');
        await (await queue.getJob(sent.id))?.remove();
        await engine.drive(run);
      });
    }

    it('is put back, too, where it is an act of maintenance that only the newer build knows', async () => {
      const { context } = engine;
      const queue = context.queues.queue(MAINTENANCE.name);
      await queue.add('an act of tomorrow', { act: 'an act of tomorrow' }, { jobId: 'tomorrow' });
      const duty = { stop: new AbortController().signal, draining: () => false };
      const worker = context.queues.worker(MAINTENANCE.name, (job, token) =>
        handleJob(context, maintenance, { ...duty, job, token }),
      );
      await waitUntil('it is delayed', async () => (await queue.getJobState('tomorrow')) === 'delayed');
      await worker.close();
    });
  });
}

describe('A job whose content Redis has lost, as where it has evicted it', () => {
  let engine: Engine;
  let redis: Redis;
  before(async function () {
    // A database loses no part of a row.
    if (!MODES.includes('full')) return this.skip();
    engine = await openEngine('full');
    redis = new Redis(TEST_REDIS_URL ?? '');
  });
  after(async () => {
    await redis?.quit();
    await engine?.close();
  });

  /** Empties the only job that waits, and lets a worker have it. */
  const loseJob = async (lost: Handler) => {
    const { context } = engine;
    const queue = context.queues.queue(lost.contract.name);
    const find = async () => (await queue.getJobs(['prioritized', 'waiting']))[0];
    await waitUntil('its job is there', async () => (await find()) !== undefined);
    const sent = await find();
    const id = sent?.id ?? '';
    await redis.del(queue.toKey(id));
    const duty = { stop: new AbortController().signal, draining: () => false };
    const worker = context.queues.worker(queue.name, (job, token) => handleJob(context, lost, { ...duty, job, token }));
    await waitUntil('it is removed', async () => (await queue.getJobState(id)) === 'unknown');
    await worker.close();
    const lines = engine.platform.log.filter(({ job, level }) => job === id && Number(level) >= 40);
    assert.equal(lines.length, 1);
    assert.match(String(lines[0]?.['msg']), /^the queue has lost what is in a job.*noeviction/);
    const anew = async () => (await queue.getJob(id))?.data as Record<string, unknown> | undefined;
    return { queue, id, data: sent?.data as Record<string, unknown>, anew };
  };

  it('is removed with a warning, and its run is sent anew', async () => {
    const { run } = await engine.start(await engine.agent(), 'hello');
    const { anew, queue, id } = await loseJob(handler);
    assert.equal((await reconcile(engine.context, 0)).turns, 1);
    assert.equal((await anew())?.['runId'], run);
    await queue.remove(id);
    await engine.finish(run);
    assert.equal(await statusOfRun(engine, run), 'completed');
  });

  it('is so, too, where it is one of a tool call', async () => {
    engine.say((request) =>
      JSON.stringify(request.messages).includes('tool_result') ? text('done') : use({ name: offered(request, 'send') }),
    );
    const { run } = await engine.start(await engine.agent({}, [{ name: 'send' }]), 'hello');
    await engine.drive(run);
    const { anew, data } = await loseJob(toolCalls);
    assert.equal((await reconcile(engine.context, 0))['tool-calls'], 1);
    const { callId } = (await anew()) ?? {};
    assert.ok(callId !== undefined && callId === data['callId']);
  });

  it('is so, too, where it is the turn of a webhook, which takes the next one under the same id', async () => {
    const payload = { tenantId: DEFAULT_TENANT_ID, webhookId: newId() };
    const opts = { ...RECURRING_JOB_OPTIONS, jobId: WEBHOOKS.id(payload) };
    const send = () =>
      engine.context.queues.queue(WEBHOOKS.name).addBulk([{ name: WEBHOOKS.name, data: payload, opts }]);
    await send();
    const { anew } = await loseJob(webhooks);
    await send();
    assert.deepEqual(await anew(), payload);
  });
});

describe('In the mode of domain suites', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());

  describe('a job', () => {
    it('is tried again like any other where its work meets with something that does not fit its schema, and its run fails with the last attempt', async () => {
      const { context } = engine;
      const faulty: Context = { ...context, commit: () => Promise.reject(new ZodError([])) };
      const duty = { stop: new AbortController().signal, draining: () => false };
      const queue = context.queues.queue(TURNS.name);
      const agent = await engine.agent();
      for (const isLast of [false, true]) {
        const { run } = await engine.start(agent, 'hello');
        const worker = context.queues.worker(TURNS.name, (job, token) => {
          if (isLast) job.attemptsMade = (job.opts.attempts ?? 1) - 1;
          return handleJob(faulty, handler, { ...duty, job, token });
        });
        if (isLast) await waitUntil('it has failed', async () => (await statusOfRun(engine, run)) === 'failed');
        else await waitUntil('it comes again', async () => (await queue.getJobs(['delayed'])).length > 0);
        await worker.close();
        for (const job of await queue.getJobs(['delayed', 'prioritized', 'waiting'])) await job.remove();
        if (!isLast) assert.equal(await statusOfRun(engine, run), 'created');
      }
    });

    it('fails with its last attempt where its run needs what is away, and its run does not: it is sent again when that is back', async () => {
      const { context } = engine;
      const away = new FileStoreError('read', Object.assign(new Error('no'), { code: 'ECONNREFUSED' }));
      const faulty: Context = { ...context, commit: () => Promise.reject(storeAway(away)) };
      const duty = { stop: new AbortController().signal, draining: () => false };
      const queue = context.queues.queue(TURNS.name);
      const { run } = await engine.start(await engine.agent(), 'hello');
      const worker = context.queues.worker(TURNS.name, (job, token) => {
        job.attemptsMade = (job.opts.attempts ?? 1) - 1;
        return handleJob(faulty, handler, { ...duty, job, token });
      });
      await once(worker, 'failed');
      await worker.close();
      assert.equal(await statusOfRun(engine, run), 'created');
      await engine.everyoneDies();
      await reconcile(context, 0);
      await waitUntil('it has another job', async () => (await queue.getJobCountByTypes('prioritized', 'waiting')) > 0);
      await engine.finish(run);
      assert.equal(await statusOfRun(engine, run), 'completed');
    });

    it('is warned of where its run is of another installation, with what keeps them apart', async () => {
      const workers = await startWorkers(engine.context);
      const runId = newId();
      const payload = { tenantId: DEFAULT_TENANT_ID, runId, seq: 1, version: 1 };
      await engine.context.queues.queue(TURNS.name).add(TURNS.name, payload, { jobId: `${runId}-1-0` });
      const said = () => engine.platform.log.find(({ run, level }) => run === runId && level === 40);
      await waitUntil('it is warned of', async () => said() !== undefined);
      assert.match(String(said()?.['msg']), /not in this database.*DROVER_QUEUE_PREFIX/);
      await workers.stop(5000);
    });
  });

  describe('the handlers of the queues', () => {
    it('are one for each contract', async () => {
      const handlers = await loadHandlers(CONTRACTS.map(({ name }) => name));
      for (const contract of CONTRACTS) assert.equal(handlers.get(contract.name)?.contract, contract);
    });

    it('are demanded of every queue that a worker is to serve, in one line, before it serves any', async () => {
      const { context } = engine;
      const { config, queues } = context;
      const refuseWorker = (name: string) => assert.fail(`a worker of ${name}`);
      const served = [...config.queues, 'unheard-of'] as typeof config.queues;
      await assert.rejects(
        startWorkers({
          ...context,
          queues: { ...queues, worker: refuseWorker },
          config: { ...config, queues: served },
        }),
        (error: Error) => /^The queue unheard-of has no handler: [^\n]+$/.test(error.message),
      );
    });
  });
});

describe('A worker that has no key for the model of DROVER_MODEL', () => {
  it('does not drive runs, and says which is missing', async () => {
    const keyless = await openTestPlatform(undefined, { env: { DROVER_MODEL: 'openai/gpt-5' } });
    const { context } = keyless;
    await assert.rejects(startWorkers(context), /DROVER_MODEL.*OPENAI_API_KEY, which is not set/);
    const config = { ...context.config, queues: ['webhooks' as const] };
    await (await startWorkers({ ...context, config })).stop(5000);
    await keyless.close();
  });
});
