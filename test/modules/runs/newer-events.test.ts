import assert from 'node:assert/strict';
import { ROUTES } from '../../../api/routes.ts';
import { serve } from '../../../api/serve.ts';
import { newId } from '../../../lib/new-id.ts';
import { SUBTASKS } from '../../../jobs/subtasks.ts';
import { TURNS } from '../../../jobs/turns.ts';
import { handleJob } from '../../../workers/handle-job.ts';
import { handler } from '../../../workers/handlers/subtasks.ts';
import { request } from '../../support/api.ts';
import { offered, openEngine, text, use, type Engine } from '../../support/engine.ts';
import { raiseEvents } from '../../support/queries/logs.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { countUnsentJobsOf, makeJobDue, unsentJobs } from '../../support/queries/outbox.ts';
import { holdOfRun, statusOfRun, storedRun } from '../../support/queries/runs.ts';

describe('An event of a newer version', () => {
  let engine: Engine;
  let agent: string;
  let api: Awaited<ReturnType<typeof serve>>;
  before(async () => {
    engine = await openEngine();
    api = await serve(engine.context, ROUTES, { host: '127.0.0.1', port: 0 });
    agent = await engine.agent({}, [{ name: 'note' }]);
  });
  after(async () => {
    await api.close(1000);
    await engine.close();
  });

  const call = (method: string, path: string, body?: unknown) =>
    request(`${api.url}${path}`, method, { key: engine.platform.apiKey, ...(body !== undefined && { body }) });

  /** A run whose call waits for its worker. */
  async function asking(): Promise<string> {
    engine.say((asked, n) => (n % 2 === 0 ? use({ name: offered(asked, 'note') }) : text('noted')));
    const { run } = await engine.start(agent, 'note it');
    await engine.drive(run);
    return run;
  }

  const statusOf = (run: string) => statusOfRun(engine, run);
  const jobsOf = async (run: string) =>
    (await engine.context.queues.queue(TURNS.name).getJobs(['waiting', 'prioritized', 'delayed'])).filter(
      ({ data }) => data.runId === run,
    );

  it('makes a worker leave its run to others for a moment, by the clock of the database, and no other run', async () => {
    const [newer, known] = [await asking(), await asking()];
    await raiseEvents(engine, newer, 'tool.requested');
    for (const run of [newer, known]) await engine.makeCalls(run);
    await engine.drive(known);
    assert.equal(await statusOf(known), 'completed');
    const takeJobs = async () => {
      const jobs = await jobsOf(newer);
      for (const job of jobs) await job.remove();
      return jobs.map(({ delay }) => delay);
    };
    const unsent = () => unsentJobs(engine, TURNS.name);
    await waitUntil('all is sent', async () => (await unsent()).length === 0);
    await takeJobs();
    for (const times of [1, 2]) {
      assert.equal(await engine.drive(newer), 'yielded', String(times));
      assert.equal((await holdOfRun(engine, newer)).lease, null);
      await engine.context.outbox.sweep(0);
      assert.deepEqual(await takeJobs(), [], 'its time has not come, and no clock of a process says when');
      for (const { job_id } of await unsent()) await makeJobDue(engine, job_id);
      await engine.context.outbox.sweep(0);
      await waitUntil('it is sent', async () => (await unsent()).length === 0);
      assert.deepEqual(await takeJobs(), [0]);
    }
    assert.equal(await statusOf(newer), 'awaiting_tool');
  });

  it('is left to others also where a process of 0.1.0 puts its run back for a while by its own clock', async () => {
    const run = await asking();
    await engine.makeCalls(run);
    const claimed = await engine.context.claim({ tenant_id: engine.tenantId, run_id: run, seq: 0, leaseMs: 60_000 });
    assert.ok(claimed.ok);
    const givesBack = (payload: object) => {
      const job = {
        id: newId(),
        queue: TURNS.name,
        at_position: true,
        payload: { tenantId: engine.tenantId, runId: run, ...payload },
      };
      const change = {
        tenant_id: engine.tenantId,
        run_id: run,
        fence: claimed.run.fence,
        events: [],
        runs: { set: {}, add: {} },
      };
      const values = [JSON.stringify({ ...change, release: true, outbox: [{ ...job, delay_ms: 5000 }] })];
      return engine.context.db.call({ name: 'commit_run', text: 'select commit_run($1::jsonb) as result', values });
    };
    const outbox = () => countUnsentJobsOf(engine, run);
    const queuesOf = async (id: string) =>
      (await unsentJobs(engine)).filter(({ payload }) => payload['runId'] === id).map(({ queue }) => queue);
    await waitUntil('all is sent and forgotten', async () => (await outbox()) === 0);
    const beganMs = Date.now();
    await givesBack({});
    const { lease } = await holdOfRun(engine, run);
    assert.deepEqual(await queuesOf(run), [SUBTASKS.name], 'a queue that it does not serve');
    assert.ok(lease && lease.getTime() > beganMs + 9000 && lease.getTime() < Date.now() + 11_000, String(lease));
    assert.equal(await outbox(), 1);
    await engine.context.outbox.sweep(0);
    assert.equal(await outbox(), 1, 'its time has not come');
    await givesBack({ turnId: newId() });
    assert.equal((await holdOfRun(engine, run)).lease, null, 'it waits for its model');
    assert.equal(await outbox(), 2);
  });

  it('that begins a run keeps it from processes of 0.1.0, whose claims only send it to a queue that they do not serve', async () => {
    const { context, tenantId } = engine;
    engine.say(() => text('done'));
    const { run } = await engine.start(agent, 'hello');
    await waitUntil('all is sent and forgotten', async () => (await countUnsentJobsOf(engine, run)) === 0);
    const { fence } = await storedRun(engine, run);
    const claim = { tenant_id: tenantId, run_id: run, seq: 0, lease_ms: 60_000, claim: true };
    const values = [JSON.stringify(claim)];
    const [answer] = await context.db.call<{ result: { ok: boolean; why: string } }>({
      name: 'claim_run',
      text: 'select claim_run($1::jsonb) as result',
      values,
    });
    assert.deepEqual([answer?.result.ok, answer?.result.why], [false, 'held']);
    const { lease } = await holdOfRun(engine, run);
    assert.deepEqual([lease, (await storedRun(engine, run)).fence], [null, fence]);
    const worker = context.queues.worker(SUBTASKS.name, (job, token) =>
      handleJob(context, handler, { stop: new AbortController().signal, draining: () => false, job, token }),
    );
    await context.outbox.sweep(0);
    await waitUntil('a newer process has driven it', async () => (await statusOf(run)) === 'completed');
    await worker.close();
  });

  it('is shown by the API, which answers 503 where it would have to know what it means', async () => {
    const run = await asking();
    await engine.makeCalls(run);
    await engine.drive(run);
    await raiseEvents(engine, run, 'tool.requested');
    await raiseEvents(engine, run, 'turn.completed');
    const { events } = (await call('GET', `/v1/runs/${run}/events`)).json;
    const asked = events.find(({ type }: { type: string }) => type === 'tool.requested');
    assert.deepEqual([asked.schema_version, asked.payload.mode], [99, 'sideways']);
    const stream = await call('GET', `/v1/runs/${run}/stream`);
    assert.equal(stream.status, 200);
    for (const shown of ['tool_call', 'tool_result', 'message', 'done'])
      assert.match(stream.text, RegExp(`event: ${shown}`));
    for (const path of ['', '/turns', '/checkpoints'])
      assert.equal((await call('GET', `/v1/runs/${run}${path}`)).status, 200);
    await raiseEvents(engine, run, 'run.created');
    const replay = await call('POST', `/v1/runs/${run}/replay`, { checkpoint_id: 'start' });
    assert.deepEqual([replay.status, replay.json.code], [503, 'unavailable'], replay.text);
  });
});
