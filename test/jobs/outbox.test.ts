import assert from 'node:assert/strict';
import { UnrecoverableError, type Worker } from 'bullmq';
import { pino } from 'pino';
import { newId } from '../../lib/new-id.ts';
import { commitRun, NO_ROWS, type OutboxRow } from '../../db/commit-run.ts';
import { JOB_OPTIONS } from '../../jobs/options.ts';
import { createOutbox } from '../../jobs/outbox.ts';
import { TURNS } from '../../jobs/turns.ts';
import { openEngine, type Engine } from '../support/engine.ts';
import { MODES } from '../support/modes.ts';
import { waitUntil } from '../support/wait-until.ts';
import { makeJobDue, unsentJobs } from '../support/queries/outbox.ts';

for (const mode of MODES) {
  describe(`The outbox in ${mode} mode`, () => {
    let engine: Engine;
    let run: string;
    const workers: Worker[] = [];

    before(async () => {
      engine = await openEngine(mode);
      ({ run } = await engine.start(await engine.agent(), 'hello'));
      await waitUntil('it is empty', async () => (await stored()).length === 0);
    });
    afterEach(async () => {
      for (const worker of workers.splice(0)) await worker.close();
    });
    after(() => engine.close());

    const stored = () => unsentJobs(engine);
    const row = (queue: string, job_id: string, more: Partial<OutboxRow> = {}) => ({
      id: newId(),
      queue,
      job_id,
      payload: { tenantId: engine.tenantId },
      ...more,
    });

    /** What a process does that is killed right after its commit. */
    const commitOnly = async (...outbox: OutboxRow[]) => {
      const change = { ...NO_ROWS, tenant_id: engine.tenantId, run_id: run, events: [], outbox };
      const result = await commitRun(engine.context.db, change);
      assert.ok(result.ok);
      return result;
    };
    /** Ids of the jobs of a queue in the order in which they end, those in `failing` for good. */
    const serve = (queue: string, { failing = [], order = [] }: { failing?: string[]; order?: string[] } = {}) => {
      const worker = engine.context.queues.worker(queue, async (job) => {
        order.push(String(job.id));
        if (failing.includes(String(job.id))) throw new UnrecoverableError('broken');
      });
      worker.on('failed', () => undefined);
      workers.push(worker);
      return order;
    };
    const jobIn = (queue: string, id: string) => engine.context.queues.queue(queue).getJob(id);

    it('gives a job at the committed position the id and the position that its contract says', async () => {
      const outbox: OutboxRow = {
        id: newId(),
        queue: TURNS.name,
        at_position: true,
        payload: { tenantId: engine.tenantId, runId: run },
      };
      const { seq, fence } = await commitOnly(outbox);
      const [found] = await stored();
      const id = TURNS.id({ runId: run, seq, fence });
      assert.deepEqual(found, {
        id: outbox.id,
        queue: 'turns',
        job_id: id,
        payload: { tenantId: engine.tenantId, runId: run, seq },
      });
      await (await jobIn(TURNS.name, id))?.remove();
      await engine.context.outbox.send(run, { seq, fence }, [outbox]);
      await waitUntil('it is sent', async () => (await jobIn(TURNS.name, id)) !== undefined);
      assert.deepEqual((await jobIn(TURNS.name, id))?.data, { tenantId: engine.tenantId, runId: run, seq });
      await waitUntil('it is forgotten', async () => (await stored()).length === 0);
    });

    it('sends jobs of any queue by their own ids, those of a commit together', async () => {
      const rows = [row('any', 'a'), row('any', 'b'), row('another', 'c')];
      const result = await commitOnly(...rows);
      await engine.context.outbox.send(run, result, rows);
      const order = serve('any');
      serve('another', { order });
      await waitUntil('all have run', () => order.length === 3);
      assert.deepEqual(order.toSorted(), ['a', 'b', 'c']);
      await waitUntil('they are forgotten', async () => (await stored()).length === 0);
    });

    it('sends the jobs of commits that are answered in one turn of the event loop in one round trip', async () => {
      const rows = [row('bulk', 'one'), row('bulk', 'two'), row('bulk', 'three')];
      const result = await commitOnly(...rows);
      const queue = engine.context.queues.queue('bulk');
      const addBulk = queue.addBulk.bind(queue);
      const sent: number[] = [];
      queue.addBulk = (jobs) => {
        sent.push(jobs.length);
        return addBulk(jobs);
      };
      await Promise.all(rows.map((each) => engine.context.outbox.send(run, result, [each])));
      assert.deepEqual(sent, [3]);
      const order = serve('bulk');
      await waitUntil('all have run', () => order.length === 3);
      await waitUntil('they are forgotten', async () => (await stored()).length === 0);
    });

    it('keeps a job until the time before which it shall not run, by the clock of the database', async () => {
      await commitOnly(row('later', 'soon', { delay_ms: 60_000 }), row('later', 'past', { delay_ms: 60_000 }));
      await makeJobDue(engine, 'past');
      assert.equal(await engine.context.outbox.sweep(0), 1);
      assert.deepEqual([await jobIn('later', 'soon'), (await jobIn('later', 'past'))?.delay], [undefined, 0]);
      await waitUntil('what was sent is forgotten', async () => (await stored()).length === 1);
      await makeJobDue(engine, 'soon');
      assert.equal(await engine.context.outbox.sweep(0), 1);
      assert.equal((await jobIn('later', 'soon'))?.delay, 0);
      await waitUntil('that is forgotten, too', async () => (await stored()).length === 0);
    });

    it('runs a job after those that name it their parent, also when one of them fails for good', async () => {
      const parent = { queue: 'joins', job_id: 'join' };
      const parts = ['p1', 'p2'].map((id) => row('parts', id, { parent }));
      await commitOnly(row('joins', 'join'), ...parts);
      assert.equal(await engine.context.outbox.sweep(0), 3);
      const joins = serve('joins');
      const queue = engine.context.queues.queue('joins');
      assert.equal(await queue.getJobState('join'), 'waiting-children');
      // What was sent before a crash is swept again.
      await engine.context.outbox.send(run, { seq: 1, fence: 1 }, [row('joins', 'join'), ...parts]);
      await engine.context.outbox.close();
      assert.deepEqual(joins, []);
      const p1 = await jobIn('parts', 'p1');
      assert.equal(p1?.opts.ignoreDependencyOnFailure, true);
      assert.equal(p1.opts.attempts, JOB_OPTIONS.attempts);
      serve('parts', { failing: ['p2'] });
      await waitUntil('the parent has run', () => joins.length === 1);
      assert.equal(await engine.context.queues.queue('parts').getJobState('p2'), 'failed');
    });

    it('sends a job whose parent is not sent along without it', async () => {
      await commitOnly(row('parts', 'alone', { parent: { queue: 'joins', job_id: 'sent-long-ago' } }));
      const order = serve('parts');
      assert.equal(await engine.context.outbox.sweep(0), 1);
      await waitUntil('it has run', () => order.includes('alone'));
    });

    it('sends a job that follows from no commit, and says which one it could not send', async () => {
      const payload = { tenantId: engine.tenantId };
      await engine.context.outbox.sendJob({ queue: 'any', job_id: 'loose', payload });
      assert.deepEqual((await jobIn('any', 'loose'))?.data, payload);
      await (await jobIn('any', 'loose'))?.remove();
      const lines: { queue?: string; job?: string; run?: string }[] = [];
      const log = pino({}, { write: (line: string) => void lines.push(JSON.parse(line)) });
      const outbox = createOutbox({ ...engine.context, log });
      // BullMQ takes no colon in an id.
      await outbox.sendJob({ queue: 'any', job_id: 'odd:id', payload });
      assert.deepEqual(
        lines.map(({ queue, job, run: ofRun }) => [queue, job, ofRun]),
        [['any', 'odd:id', undefined]],
      );
      await outbox.close();
    });

    it('sends a job below one that waits already, and without it where that has gone', async () => {
      const below = (job_id: string, parent: string) =>
        row('parts', job_id, { parent: { queue: 'joins', job_id: parent, waits: true } });
      const position = { seq: 1, fence: 1 };
      const first = row('parts', 'first', { parent: { queue: 'joins', job_id: 'above' } });
      await engine.context.outbox.send(run, position, [row('joins', 'above'), first]);
      await engine.context.outbox.send(run, position, [below('later', 'above'), below('lonely', 'gone')]);
      const above = await engine.context.queues.queue('joins').getJob('above');
      assert.equal((await above?.getDependenciesCount())?.unprocessed, 2);
      const order = serve('parts');
      serve('joins', { order });
      await waitUntil('all have run', () => order.length === 4);
      assert.deepEqual(order.filter((id) => id !== 'lonely').toSorted(), ['above', 'first', 'later']);
      assert.equal(order.filter((id) => id !== 'lonely').at(-1), 'above');
      assert.ok(order.includes('lonely'));
    });
  });
}
