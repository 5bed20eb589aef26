import assert from 'node:assert/strict';
import { UnrecoverableError } from 'bullmq';
import { TOOL_CALLS } from '../../../jobs/tool-calls.ts';
import { sendJobs } from '../../../jobs/send-jobs.ts';
import { nextLookJobId, SUBTASKS } from '../../../jobs/subtasks.ts';
import { TURNS } from '../../../jobs/turns.ts';
import { LIMITS } from '../../../core/limits.ts';
import { dropPassedParents } from '../../../modules/run-log/drop-passed-parents.ts';
import { cancelRun } from '../../../modules/runs/end-run.ts';
import { eraseRun } from '../../../modules/runs/erase-run.ts';
import { maintain } from '../../../modules/platform/maintain.ts';
import { offered, openEngine, text, use, type Engine } from '../../support/engine.ts';
import { FAULT_MODES } from '../../support/modes.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { lookNow, readWorkflow, startWorkflow, subtask } from '../../support/workflows.ts';
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
      assert.equal(await engine.drive(run), 'yielded');
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
      assert.equal(await engine.drive(run), 'yielded');
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
      assert.equal(asked.length, 2, 'turns, and looks at workflows');
      for (const [from = -1, to = -1] of asked) {
        assert.equal(to - from + 1, LIMITS.sweepRows);
        assert.ok(from >= 0 && to < waiting.length);
      }
      assert.deepEqual(removed, []);
    });
  });

  describe(`A look at a workflow that waits in the queue for children whose jobs are lost, in ${mode} mode,`, () => {
    let engine: Engine;
    before(async () => {
      engine = await openEngine(mode);
    });
    after(() => engine.close());

    const queue = () => engine.context.queues.queue(SUBTASKS.name);
    const advance = (id: string) => lookNow(engine.context, { tenantId: engine.tenantId, runId: id });
    const state = async (look: string) => (await engine.context.queues.states(SUBTASKS.name, [look]))[0];
    /** Its children's jobs fail in the queue, as while the database is away, and their flow is sent once more after that. */
    const loseChildren = async (id: string) => {
      const { tasks } = await readWorkflow(engine, id);
      const jobs = tasks.map((task) => ({
        job_id: SUBTASKS.id({ taskId: task.id, attempt: 0 }),
        payload: { tenantId: engine.tenantId, runId: task.run_id ?? '', taskId: task.id },
      }));
      const { queues } = engine.context;
      const worker = queues.worker(SUBTASKS.name, () => Promise.reject(new UnrecoverableError('the database is away')));
      const ids = jobs.map(({ job_id }) => job_id);
      const failed = async () => (await queues.states(SUBTASKS.name, ids)).every((each) => each === 'failed');
      await waitUntil('their jobs have failed', failed);
      await worker.close();
      const look = nextLookJobId(tasks[0]?.run_id ?? '');
      await queue().remove(look, { removeChildren: false });
      const parent = { queue: SUBTASKS.name, job_id: look };
      const sent = { queue: SUBTASKS.name, priority: 1 };
      await sendJobs(queues, [
        { ...sent, job_id: look, payload: { tenantId: engine.tenantId, runId: id } },
        ...jobs.map((job) => ({ ...sent, ...job, parent })),
      ]);
      return { look, children: tasks.map(({ run_id }) => run_id ?? '') };
    };

    it('is removed at once, whoever is still at work, and not while the job of one of them lives', async () => {
      const agent = await engine.agent();
      const id = await startWorkflow(engine, [subtask('a'), subtask('b')], { agentId: agent });
      await advance(id);
      const { look } = await loseChildren(id);
      assert.equal(await state(look), 'waiting-children', 'the queue lets it wait');
      const one = { queue: SUBTASKS.name, job_id: 'alive', priority: 1, payload: { tenantId: engine.tenantId } };
      await sendJobs(engine.context.queues, [{ ...one, parent: { queue: SUBTASKS.name, job_id: look, waits: true } }]);
      assert.equal(await dropPassedParents(engine.context, 0), 0, 'a job below it is still to come');
      assert.equal(await state(look), 'waiting-children');
      await queue().remove('alive');
      assert.equal((await maintain(engine.context, 'reconcile'))['dropped'], 1);
      assert.equal(await state(look), 'unknown');
      await cancelRun(engine.context, { tenantId: engine.tenantId, runId: id });
    });

    it('is removed when none of them is at work any more, though a job below it lives', async () => {
      const agent = await engine.agent({ tools: ['ask_user'] });
      const question = use({ name: 'ask_user', input: { question: 'Which?' } });
      engine.say((request) => (/"Do a\./.test(JSON.stringify(request.messages)) ? question : text('done')));
      const id = await startWorkflow(engine, [subtask('a'), subtask('b')], { agentId: agent });
      await advance(id);
      const { look, children } = await loseChildren(id);
      const one = { queue: SUBTASKS.name, job_id: 'alive', priority: 1, payload: { tenantId: engine.tenantId } };
      await sendJobs(engine.context.queues, [{ ...one, parent: { queue: SUBTASKS.name, job_id: look, waits: true } }]);
      assert.equal(await dropPassedParents(engine.context, 0), 0, 'both are still to be driven');
      for (const child of children) await engine.finish(child);
      await advance(id);
      assert.equal(await state(look), 'waiting-children');
      assert.equal(await dropPassedParents(engine.context, 60_000), 0, 'the workflow has just changed');
      assert.equal((await maintain(engine.context, 'reconcile'))['dropped'], 0, 'so it is in maintenance');
      assert.equal(await dropPassedParents(engine.context, 0), 1, 'one is done, one waits for a person');
      assert.equal(await state(look), 'unknown');
      await queue().remove('alive');
    });

    it('is removed when its workflow was cancelled, or erased', async () => {
      const agent = await engine.agent();
      for (const end of ['cancelled', 'erased']) {
        const id = await startWorkflow(engine, [subtask('a'), subtask('b')], { agentId: agent });
        await advance(id);
        const { look } = await loseChildren(id);
        if (end === 'cancelled') await cancelRun(engine.context, { tenantId: engine.tenantId, runId: id });
        else await eraseRun(engine.context, engine.caller, { id, dependents: false });
        assert.equal(await dropPassedParents(engine.context, 0), 1, end);
        assert.equal(await state(look), 'unknown');
      }
    });
  });
}
