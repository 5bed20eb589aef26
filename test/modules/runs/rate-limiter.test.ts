import assert from 'node:assert/strict';
import { TURNS } from '../../../jobs/turns.ts';
import { openPlatform, type Platform } from '../../../modules/platform/open-platform.ts';
import { reconcile } from '../../../modules/run-log/reconcile.ts';
import { openEngine, text, type Engine } from '../../support/engine.ts';
import { DOMAIN_MODES } from '../../support/modes.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { reservationsOfRun } from '../../support/queries/budgets.ts';
import { forgetOutages, openGates } from '../../support/queries/model-calls.ts';
import { holdOfRun, makeRunQuiet } from '../../support/queries/runs.ts';

const REFUSED = { error: { status: 429, type: 'rate_limit_error', retryAfter: 1 } };

for (const mode of DOMAIN_MODES) {
  describe(`the gate before a model in ${mode} mode`, () => {
    let engine: Engine;
    let agent: string;

    before(async () => {
      engine = await openEngine(mode);
      agent = await engine.agent();
    });
    afterEach(async () => {
      await engine.gatesOpen();
      await forgetOutages(engine.context.db);
    });
    after(() => engine.close());

    const modelEvents = async (run: string) =>
      (await engine.log(run)).flatMap(({ type }) => (type.startsWith('model.') ? [type.slice(6)] : []));
    const jobOf = async (run: string) => {
      const jobs = await engine.context.queues.queue(TURNS.name).getDelayed();
      return jobs.find((job) => job.data.runId === run);
    };

    it('is shut for all by a refusal, for as long as the provider says', async () => {
      // Longer than the test takes on any machine.
      engine.say((_request, n) => (n === 0 ? { error: { ...REFUSED.error, retryAfter: 300 } } : text('at last')));
      const { run } = await engine.start(agent, 'one');
      const { run: other } = await engine.start(agent, 'two');
      assert.equal(await engine.drive(run), 'yielded');
      assert.equal(await engine.drive(other), 'yielded');
      assert.equal(await engine.drive(run), 'yielded');
      assert.equal(engine.model.requests.length, 1, 'somebody asked too early');
      await openGates(engine);
      await Promise.all([engine.finish(run), engine.finish(other)]);
      assert.deepEqual(await modelEvents(run), ['called', 'retried', 'responded']);
      assert.deepEqual(await modelEvents(other), ['called', 'responded']);
    });

    it('leaves no lease, no failed attempt and one delayed job behind', async () => {
      engine.say((_request, n) => (n === 0 ? { error: { ...REFUSED.error, retryAfter: 2 } } : text('at last')));
      const { run } = await engine.start(agent, 'hello');
      assert.equal(await engine.drive(run), 'yielded');
      const { status, lease } = await holdOfRun(engine, run);
      assert.deepEqual([status, lease], ['executing', null]);
      await waitUntil('its job is delayed', async () => (await jobOf(run)) !== undefined);
      const job = await jobOf(run);
      assert.ok(Number(job?.opts.delay) >= 2000 && Number(job?.opts.delay) <= 3000, `${job?.opts.delay} ms`);
      assert.equal(job?.attemptsMade, 0);
      await reconcile(engine.context, 0);
      const jobs = await engine.context.queues.queue(TURNS.name).getJobs(['waiting', 'delayed', 'prioritized']);
      assert.equal(jobs.filter(({ data, id }) => data.runId === run && id !== `${run}-2-0`).length, 1);
      await engine.finish(run);
    });

    it('is not shut for longer because the clock of a worker was ahead', async () => {
      engine.say((_request, n) => (n === 0 ? REFUSED : text('at last')));
      const { run } = await engine.start(agent, 'hello');
      await engine.drive(run);
      await waitUntil('its job is delayed', async () => (await jobOf(run)) !== undefined);
      const job = await jobOf(run);
      assert.ok(job?.id);
      await job.remove();
      const opts = { jobId: job.id, delay: 1000, timestamp: Date.now() + 600_000 };
      await engine.context.queues.queue(TURNS.name).add(TURNS.name, job.data, opts);
      assert.equal((await reconcile(engine.context, 0)).turns, 0, 'it may yet be on time');
      await makeRunQuiet(engine, run);
      assert.equal((await reconcile(engine.context, 0)).turns, 1);
      assert.equal(await jobOf(run), undefined, 'it is delayed no more');
      await engine.gatesOpen();
      await engine.finish(run);
    });

    it('leads to the fallback model after repeated refusals', async () => {
      const llm_config = { default_model: 'claude-sonnet-5', fallback_model: 'claude-haiku-4-5' };
      const careful = await engine.agent({ llm_config });
      engine.say((request) =>
        request.model === 'claude-sonnet-5' ? { error: { ...REFUSED.error, retryAfter: 0 } } : text('I can'),
      );
      const { run } = await engine.start(careful, 'hello');
      await engine.finish(run);
      assert.deepEqual(await modelEvents(run), ['called', 'retried', 'retried', 'failed', 'fell_back', 'responded']);
      assert.equal(engine.model.requests.length, 4);
    });

    it('keeps what a run has set aside of its budget for nobody meanwhile', async () => {
      engine.say((_request, n) => (n === 0 ? REFUSED : text('at last')));
      const { run } = await engine.start(agent, 'hello', { config: { budget: { max_tokens: 100_000 } } });
      await engine.finish(run);
      const states = (await reservationsOfRun(engine, run)).map(({ state }) => state);
      assert.deepEqual([states.at(0), states.at(-1)], ['released', 'settled']);
    });
  });

  describe(`rates of a credential in ${mode} mode`, () => {
    let engine: Engine;
    let second: Platform | undefined;

    before(async () => {
      engine = await openEngine(mode, { DROVER_MODEL_LIMITS: 'anthropic/claude-sonnet-5=3,anthropic=1000:5000' });
      const { config, log } = engine.context;
      second = mode === 'embedded' ? undefined : await openPlatform(config, { log });
    });
    after(async () => {
      await second?.close();
      await engine.close();
    });

    it('are kept by all workers together', async () => {
      const agent = await engine.agent({ llm_config: { default_model: 'claude-sonnet-5' } });
      engine.say(() => text('yes'));
      const runs = await Promise.all(Array.from({ length: 8 }, () => engine.start(agent, 'hello')));
      const within = [engine.context, second?.context ?? engine.context];
      const ends = await Promise.all(runs.map(({ run }, index) => engine.drive(run, within[index % 2])));
      assert.deepEqual(ends.toSorted(), [...Array(3).fill('dormant'), ...Array(5).fill('yielded')]);
      assert.equal(engine.model.requests.length, 3);
    });

    it('count the tokens of an answer when it has come', async () => {
      const agent = await engine.agent({ llm_config: { default_model: 'claude-haiku-4-5' } });
      engine.say(() => ({ ...text('long'), usage: { input_tokens: 100, output_tokens: 6000 } }));
      const [first, next] = [await engine.start(agent, 'hello'), await engine.start(agent, 'hello')];
      assert.equal(await engine.drive(first.run), 'dormant');
      assert.equal(await engine.drive(next.run), 'yielded');
      assert.equal(engine.model.requests.length, 1);
    });
  });
}
