import assert from 'node:assert/strict';
import { ROUTES } from '../../../api/routes.ts';
import { serve } from '../../../api/serve.ts';
import { TURNS } from '../../../jobs/turns.ts';
import { reconcile } from '../../../modules/run-log/reconcile.ts';
import { request } from '../../support/api.ts';
import { offered, openEngine, text, use, type Engine } from '../../support/engine.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { raiseEvents } from '../../support/queries/logs.ts';
import { holdOfRun, statusOfRun } from '../../support/queries/runs.ts';

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
    (await engine.context.queues.queue(TURNS.name).getJobs(['delayed'])).filter(({ data }) => data.runId === run);

  it('makes a worker put back its run, once for each time, and no other', async () => {
    const [newer, known] = [await asking(), await asking()];
    await raiseEvents(engine, newer, 'tool.requested');
    for (const run of [newer, known]) await engine.makeCalls(run);
    await engine.drive(known);
    assert.equal(await statusOf(known), 'completed');
    for (const times of [1, 2]) {
      const before = new Set((await jobsOf(newer)).map(({ id }) => id));
      assert.equal(await engine.drive(newer), 'handed_over', String(times));
      await waitUntil('it is there for later', async () => (await jobsOf(newer)).some(({ id }) => !before.has(id)));
    }
    assert.equal(await statusOf(newer), 'awaiting_tool');
    assert.equal((await holdOfRun(engine, newer)).lease, null);
    assert.equal((await reconcile(engine.context, 0)).turns, 0, 'its job is alive');
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
