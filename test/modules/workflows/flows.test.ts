/** Subtasks as BullMQ's flows: the board of the queues shows the tree, and nothing depends on it. */
import assert from 'node:assert/strict';
import { joinJobId, SUBTASKS } from '../../../jobs/subtasks.ts';
import { reconcile } from '../../../modules/run-log/reconcile.ts';
import { startWorkers, type Workers } from '../../../workers/start-workers.ts';
import { openEngine, text, use, type Engine } from '../../support/engine.ts';
import { MODES } from '../../support/modes.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { readWorkflow, startWorkflow, subtask } from '../../support/workflows.ts';
import { childrenOfRun, statusOfRun } from '../../support/queries/runs.ts';

if (MODES.includes('full')) {
  describe('The subtasks of a workflow on Redis', () => {
    let engine: Engine;
    let workers: Workers;
    let release: () => void = () => undefined;

    before(async () => {
      engine = await openEngine('full');
      workers = await startWorkers(engine.context);
      // As where this process has no slot for them: what it drives itself, no job is needed for.
      engine.context.outbox.offerSlots({ children: () => undefined });
    });
    after(async () => {
      await workers.stop(5000);
      await engine.close();
    });

    /** b and d think until they are released. */
    const start = async () => {
      const agent = await engine.agent();
      const released = new Promise<void>((resolve) => (release = resolve));
      engine.say(async (request) => {
        if (/"Do [bd]\./.test(JSON.stringify(request.messages[0]))) await released;
        return text('done');
      });
      return startWorkflow(engine, [subtask('a'), subtask('b'), subtask('c', 'a', 'b'), subtask('d', 'a')], {
        agentId: agent,
      });
    };
    const read = (id: string) => readWorkflow(engine, id);
    const states = async (id: string) =>
      Object.fromEntries((await read(id)).tasks.map(({ name, status }) => [name, status]));
    const jobOf = async (id: string, name: string) => {
      const task = (await read(id)).tasks.find((each) => each.name === name);
      const jobId = SUBTASKS.id({ taskId: task?.id ?? '', attempt: 0 });
      return { jobId, job: await engine.context.queues.queue(SUBTASKS.name).getJob(jobId) };
    };
    const aIsDone = (id: string) =>
      waitUntil('a is done, b is not, and d has begun', async () => {
        const { a, b, d } = await states(id);
        return (
          a === 'completed' && b === 'in_progress' && (await jobOf(id, 'd')).job !== undefined && d === 'in_progress'
        );
      });
    const completed = (id: string) => async () => (await read(id)).workflow.status === 'completed';

    it('are children of the look that waits for them, those that begin later too, and go on when it has come', async () => {
      const id = await start();
      await aIsDone(id);
      const [a, b, d] = [await jobOf(id, 'a'), await jobOf(id, 'b'), await jobOf(id, 'd')];
      const parent = b.job?.parent?.id ?? '';
      assert.match(parent, /^next-/);
      const tree = await engine.context.queues.flowProducer().getFlow({ queueName: SUBTASKS.name, id: parent });
      assert.deepEqual(tree?.children?.map(({ job }) => job.id).toSorted(), [a.jobId, b.jobId, d.jobId].toSorted());
      assert.equal(await tree?.job.getState(), 'waiting-children');
      assert.deepEqual(tree?.job.data.runId, id);
      release();
      await waitUntil('the workflow is done', completed(id));
      await waitUntil('the look has come', async () => (await tree?.job.getState()) === 'completed');
      assert.equal((await jobOf(id, 'c')).job?.parent?.id, parent);
      const tasks = (await read(id)).tasks.map(({ run_id }) => joinJobId(run_id ?? ''));
      assert.deepEqual(
        await engine.context.queues.states(SUBTASKS.name, tasks),
        tasks.map(() => 'unknown'),
        'whoever ends a child looks itself',
      );
    });

    it('get a look of their own where they begin after a person has answered, which goes on like the other', async () => {
      const agent = await engine.agent({ tools: ['ask_user'] });
      const released = new Promise<void>((resolve) => (release = resolve));
      engine.say(async (request) => {
        const asked = JSON.stringify(request.messages);
        if (/"Do [bc]\./.test(asked)) await released;
        if (!/"Do a\./.test(asked) || asked.includes('tool_result')) return text('done');
        return use({ name: 'ask_user', input: { question: 'Which?' } });
      });
      const id = await startWorkflow(engine, [subtask('a'), subtask('b'), subtask('c', 'a')], { agentId: agent });
      const childOf = async (name: string) => (await read(id)).tasks.find((each) => each.name === name)?.run_id ?? '';
      await waitUntil('a asks', async () => {
        const run = await childOf('a');
        if (run === '') return false;
        return (
          (await statusOfRun(engine, run)) === 'awaiting_human' &&
          (await (await jobOf(id, 'a')).job?.getState()) === 'completed'
        );
      });
      await engine.post(agent, await childOf('a'), 'The first.');
      await waitUntil('c is under way', async () => (await (await jobOf(id, 'c')).job?.getState()) === 'active');
      const looks = [(await jobOf(id, 'b')).job?.parent?.id ?? '', (await jobOf(id, 'c')).job?.parent?.id ?? ''];
      assert.equal(new Set(looks).size, 2);
      const queue = engine.context.queues.queue(SUBTASKS.name);
      for (const look of looks) {
        assert.match(look, /^next-/);
        assert.equal(await queue.getJobState(look), 'waiting-children');
      }
      release();
      await waitUntil('the workflow is done', completed(id));
      for (const look of looks)
        await waitUntil('the look has come', async () => (await queue.getJobState(look)) === 'completed');
      const children = await childrenOfRun(engine, id);
      assert.equal(children.length, 3, 'nothing was done twice');
    });

    it('lose nothing with a queue that is emptied', async () => {
      const id = await start();
      await aIsDone(id);
      const { queues } = engine.context;
      await queues.queue(SUBTASKS.name).obliterate({ force: true });
      const { job } = await jobOf(id, 'b');
      assert.equal(job, undefined);
      release();
      await waitUntil('the workflow is done', async () => {
        await reconcile(engine.context, 0, engine.tenantId);
        return completed(id)();
      });
      assert.deepEqual(await states(id), { a: 'completed', b: 'completed', c: 'completed', d: 'completed' });
      const children = await childrenOfRun(engine, id);
      assert.equal(children.length, 4, 'nothing was done twice');
    });
  });
}
