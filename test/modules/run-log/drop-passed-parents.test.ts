import assert from 'node:assert/strict';
import { UnrecoverableError } from 'bullmq';
import { TOOL_CALLS } from '../../../jobs/tool-calls.ts';
import { sendJobs } from '../../../jobs/send-jobs.ts';
import { TURNS } from '../../../jobs/turns.ts';
import { LIMITS } from '../../../core/limits.ts';
import { dropPassedParents } from '../../../modules/run-log/drop-passed-parents.ts';
import { maintain } from '../../../modules/platform/maintain.ts';
import { offered, openEngine, text, use, type Engine } from '../../support/engine.ts';
import { FAULT_MODES } from '../../support/modes.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { statusOfRun } from '../../support/queries/runs.ts';

for (const mode of FAULT_MODES) {
  describe(`A turn that waits in the queue for calls whose jobs are lost, in ${mode} mode,`, () => {
    let engine: Engine;
    before(async () => {
      engine = await openEngine(mode);
    });
    after(() => engine.close());

    /** An agent that asks for two calls at a time, `rounds` times. */
    const begin = async (rounds: number) => {
      engine.say((request, n) => {
        const name = offered(request, 'send');
        return n < rounds ? use({ name, input: { n, m: 1 } }, { name, input: { n, m: 2 } }) : text('done');
      });
      const { run } = await engine.start(await engine.agent({}, [{ name: 'send' }]), 'hello');
      assert.equal(await engine.drive(run), 'handed_over');
      return run;
    };
    const turns = () => engine.context.queues.queue(TURNS.name);
    const parentsOf = async (run: string) =>
      (await turns().getRanges(['waiting-children'], 0, -1, true)).filter((id) => id.startsWith(run));
    const areParents = (run: string, count: number) =>
      waitUntil('its turns wait for their calls', async () => (await parentsOf(run)).length === count);
    const callsOf = async (parent: string) => {
      const tree = await engine.context.queues.flowProducer().getFlow({ queueName: TURNS.name, id: parent });
      const calls = (tree?.children ?? []).map(({ job }) => job);
      assert.equal(calls.length, 2);
      return calls;
    };
    /** Its calls fail in the queue, as while the database is away, and their flow is swept once more after that. */
    const loseCalls = async (parent: string) => {
      const { queues } = engine.context;
      const job = await turns().getJob(parent);
      const calls = await callsOf(parent);
      await turns().remove(parent, { removeChildren: false });
      const worker = queues.worker(TOOL_CALLS.name, () =>
        Promise.reject(new UnrecoverableError('the database is away')),
      );
      const failed = async () => (await queues.states(TOOL_CALLS.name, ids)).every((state) => state === 'failed');
      const ids = calls.map(({ id = '' }) => id);
      await waitUntil('its calls have failed', failed);
      await worker.close();
      const jobOf = (queue: string, job_id: string, payload: Record<string, unknown>) => ({
        queue,
        job_id,
        payload,
        priority: 1,
      });
      await sendJobs(queues, [
        jobOf(TURNS.name, parent, job?.data as Record<string, unknown>),
        ...calls.map(({ id = '', data }) => ({
          ...jobOf(TOOL_CALLS.name, id, data as Record<string, unknown>),
          parent: { queue: TURNS.name, job_id: parent },
        })),
      ]);
    };

    it('is removed when its run has gone on and ended, and not before', async () => {
      const run = await begin(1);
      await areParents(run, 1);
      const [lost = ''] = await parentsOf(run);
      await loseCalls(lost);
      assert.deepEqual(await parentsOf(run), [lost], 'the queue lets it wait');
      assert.equal(await dropPassedParents(engine.context, 0), 0, 'its calls are still to be made');
      await engine.makeCalls(run);
      await engine.finish(run);
      assert.equal(await statusOfRun(engine, run), 'completed');
      assert.equal((await parentsOf(run)).length, 1);
      assert.equal(await dropPassedParents(engine.context, 60_000), 0, 'the run has just changed');
      assert.equal(await dropPassedParents(engine.context, 0), 1);
      assert.deepEqual(await parentsOf(run), []);
      assert.equal((await maintain(engine.context, 'reconcile'))['dropped'], 0);
    });

    it('is removed when its run waits for later calls, whose turn stays', async () => {
      const run = await begin(2);
      await areParents(run, 1);
      const [lost = ''] = await parentsOf(run);
      await loseCalls(lost);
      await engine.makeCalls(run);
      assert.equal(await engine.drive(run), 'handed_over');
      await areParents(run, 2);
      assert.equal(await dropPassedParents(engine.context, 0), 1);
      const left = await parentsOf(run);
      assert.equal(left.length, 1);
      assert.notEqual(left[0], lost);
      await engine.makeCalls(run);
      await engine.finish(run);
      assert.equal(await dropPassedParents(engine.context, 0), 1);
    });

    it('is removed under calls that are still in the queue, which go on without it', async () => {
      const run = await begin(1);
      await areParents(run, 1);
      const children = await callsOf((await parentsOf(run))[0] ?? '');
      await engine.makeCalls(run);
      await engine.finish(run);
      assert.equal(await dropPassedParents(engine.context, 0), 1);
      const ids = children.map(({ id = '' }) => id);
      assert.ok(!(await engine.context.queues.states(TOOL_CALLS.name, ids)).includes('unknown'));
      const worker = engine.context.queues.worker(TOOL_CALLS.name, () => Promise.resolve());
      await waitUntil('they have ended', async () =>
        (await engine.context.queues.states(TOOL_CALLS.name, ids)).every((state) => state === 'completed'),
      );
      await worker.close();
    });

    it('is looked for by so many at a time, in a look and a question each', async () => {
      const run = await begin(1);
      await areParents(run, 1);
      const [id = ''] = await parentsOf(run);
      const removed: string[] = [];
      const asked: number[][] = [];
      const waiting = Array.from({ length: 3 * LIMITS.sweepRows }, () => id);
      const queue = {
        getWaitingChildrenCount: () => Promise.resolve(waiting.length),
        getRanges: (_types: string[], from: number, to: number) => {
          asked.push([from, to]);
          return Promise.resolve(waiting.slice(from, to + 1));
        },
        remove: (each: string) => Promise.resolve(removed.push(each)),
      };
      const queues = { ...engine.context.queues, queue: () => queue as unknown as ReturnType<typeof turns> };
      assert.equal(await dropPassedParents({ ...engine.context, queues }, 0), 0);
      assert.equal(asked.length, 1);
      const [[from = -1, to = -1] = []] = asked;
      assert.equal(to - from + 1, LIMITS.sweepRows);
      assert.ok(from >= 0 && to < waiting.length);
      assert.deepEqual(removed, []);
    });
  });
}
