import assert from 'node:assert/strict';
import { runToolCall } from '../../services/run-tool-call.ts';
import { offered, openEngine, text, use, type Engine } from '../support/engine.ts';

describe('the attempt of a tool call', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());

  it('outside its flow wakes the run when it was the last that the run waits for, and not before', async () => {
    const agent = await engine.agent({}, [{ name: 'note' }]);
    engine.say((request, n) =>
      n === 0 ? use({ name: offered(request, 'note') }, { name: offered(request, 'note') }) : text('noted'),
    );
    const { run } = await engine.start(agent, 'note it, twice');
    assert.equal(await engine.drive(run), 'handed_over');
    const calls = await engine.rows<{ id: string }>('select id from tool_calls where run_id = $1 order by place', run);
    assert.equal(calls.length, 2);
    const { context, tenant } = engine;
    const jobs = async () => {
      await context.outbox.close();
      const waiting = await context.queues.queue('turns').getJobs(['waiting']);
      return waiting.filter(({ data }) => data.run === run).length;
    };
    const found: number[] = [];
    const before = await jobs();
    for (const { id } of calls) {
      const work = { tenant, run, call: id, outsideFlow: true };
      await runToolCall(context, work, new AbortController().signal);
      found.push((await jobs()) - before);
    }
    assert.deepEqual(found, [0, 1]);
  });

  it('keeps what the tool answered while the database is away', async () => {
    const agent = await engine.agent({}, [{ name: 'charge' }]);
    engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'charge') }) : text('charged')));
    let failures = 0;
    engine.toolsAnswer(async () => {
      failures = 3;
      return { status: 200, body: { charged: true } };
    });
    const { run } = await engine.start(agent, 'charge it');
    await engine.drive(run);
    const { db } = engine.context;
    const withTenant: typeof db.withTenant = (tenant, work) => {
      if (failures-- > 0) return Promise.reject(Object.assign(new Error('gone'), { code: 'ECONNREFUSED' }));
      return db.withTenant(tenant, work);
    };
    const [end] = await engine.makeCalls(run, { ...engine.context, db: { ...db, withTenant } });
    assert.deepEqual(end, { kind: 'done' });
    assert.ok(failures < 0);
    const call = await engine.row('select status, output from tool_calls where run_id = $1', run);
    assert.deepEqual(call, { status: 'succeeded', output: { charged: true } });
    assert.equal(engine.tools.seen.length, 1);
  });
});
