/** Subtasks as BullMQ's flows: the board of the queues shows the tree, and nothing depends on it. */
import assert from 'node:assert/strict';
import { SUBTASKS } from '../../../jobs/subtasks.ts';
import { reconcile } from '../../../modules/run-log/reconcile.ts';
import { createWorkflow } from '../../../modules/workflows/create-workflow.ts';
import { requireWorkflow } from '../../../modules/workflows/read-workflows.ts';
import { startWorkers, type Workers } from '../../../workers/start-workers.ts';
import { openEngine, text, type Engine } from '../../support/engine.ts';
import { MODES } from '../../support/modes.ts';
import { waitUntil } from '../../support/wait-until.ts';

if (MODES.includes('full')) {
  describe('The subtasks of a workflow on Redis', () => {
    let engine: Engine;
    let workers: Workers;
    let release: () => void = () => undefined;

    before(async () => {
      engine = await openEngine('full');
      workers = await startWorkers(engine.context);
    });
    after(async () => {
      await workers.stop(5000);
      await engine.close();
    });

    /** b thinks until it is released. */
    const start = async () => {
      const agent = await engine.agent();
      const released = new Promise<void>((resolve) => (release = resolve));
      engine.say(async (request) => {
        if (/Do b/.test(JSON.stringify(request.messages[0]))) await released;
        return text('done');
      });
      const subtask = (id: string, ...dependencies: string[]) => ({ id, description: `Do ${id}.`, dependencies });
      const { body } = await createWorkflow(
        engine.context,
        {
          caller: engine.caller,
          name: 'tree',
          agentId: agent,
          input: { user_query: 'Do it.' },
          definition: { subtasks: [subtask('a'), subtask('b'), subtask('c', 'a', 'b')] },
          settings: { on_subtask_failure: 'fail', execution: 'eager', max_replans: 0 },
          idempotency: { tenantId: engine.tenantId, route: 'test', body: null },
        },
        ({ id }) => id,
      );
      return body;
    };
    const read = (id: string) =>
      engine.context.db.withTenant(engine.tenantId, (tx) => requireWorkflow(tx, engine.caller, id));
    const states = async (id: string) =>
      Object.fromEntries((await read(id)).tasks.map(({ name, status }) => [name, status]));
    const jobOf = async (id: string, name: string) => {
      const task = (await read(id)).tasks.find((each) => each.name === name);
      const jobId = SUBTASKS.id({ taskId: task?.id ?? '', attempt: 0 });
      return { jobId, job: await engine.context.queues.queue(SUBTASKS.name).getJob(jobId) };
    };
    const aIsDone = (id: string) =>
      waitUntil('a is done and b is not', async () => {
        const { a, b } = await states(id);
        return a === 'completed' && b === 'in_progress';
      });
    const completed = (id: string) => async () => (await read(id)).workflow.status === 'completed';

    it('are children of the look that waits for them, and go on when it has come', async () => {
      const id = await start();
      await aIsDone(id);
      const [a, b] = [await jobOf(id, 'a'), await jobOf(id, 'b')];
      const parent = b.job?.parent?.id ?? '';
      assert.match(parent, /^next-/);
      const tree = await engine.context.queues.flowProducer().getFlow({ queueName: SUBTASKS.name, id: parent });
      assert.deepEqual(tree?.children?.map(({ job }) => job.id).toSorted(), [a.jobId, b.jobId].toSorted());
      assert.equal(await tree?.job.getState(), 'waiting-children');
      assert.deepEqual(tree?.job.data.runId, id);
      release();
      await waitUntil('the workflow is done', completed(id));
      await waitUntil('the look has come', async () => (await tree?.job.getState()) === 'completed');
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
      assert.deepEqual(await states(id), { a: 'completed', b: 'completed', c: 'completed' });
      const children = await engine.rows('select id from runs where parent_run_id = $1', id);
      assert.equal(children.length, 3, 'nothing was done twice');
    });
  });
}
