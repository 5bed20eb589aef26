import assert from 'node:assert/strict';
import { readUsage } from '../../../db/dashboard.ts';
import { rollUpRuns } from '../../../modules/dashboard/roll-up-usage.ts';
import { cancelRun } from '../../../modules/runs/end-run.ts';
import { door, offered, openEngine, use, type Engine } from '../../support/engine.ts';
import { ageRun } from '../../support/queries/runs.ts';

describe('The usage of a run that ends while a worker makes a call of it', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());

  interface Calling {
    run: string;
    agent: string;
    /** Lets the tool fail, and the call settle. */
    end: () => Promise<unknown>;
  }

  async function cancelled(): Promise<Calling> {
    const agent = await engine.agent({}, [{ name: 'charge' }]);
    engine.say((request) => use({ name: offered(request, 'charge') }));
    const working = door();
    engine.toolsAnswer(() => working.pass().then(() => ({ status: 422, body: {} })));
    const { run } = await engine.start(agent, 'charge it');
    await engine.drive(run);
    // The worker does not hear that the run has ended.
    const { context, tenantId } = engine;
    const deaf = { ...context, bus: { ...context.bus, subscribe: () => () => undefined } };
    const making = engine.makeCalls(run, deaf);
    await working.reached;
    await cancelRun(context, { tenantId, runId: run });
    const end = () => {
      working.open();
      return making;
    };
    return { run, agent, end };
  }

  async function callsOf(agentId: string): Promise<{ count: number; failed: number } | undefined> {
    const { context, tenantId, platform } = engine;
    const days = { from: '2000-01-01', to: '2100-01-01' };
    const filter = { tenantId, workspaceId: platform.workspaceId, agentId, ...days };
    const [usage] = await context.db.withTenant(tenantId, (tx) =>
      readUsage(tx, { ...filter, by: 'all', kinds: ['tool'] }),
    );
    return usage && { count: usage.count, failed: usage.failed };
  }

  it('is added up once the call has ended, with what came of it', async () => {
    const { agent, end } = await cancelled();
    await rollUpRuns(engine.context);
    await end();
    assert.deepEqual(await callsOf(agent), { count: 1, failed: 1 });
    assert.equal(await rollUpRuns(engine.context), 1);
    assert.deepEqual(await callsOf(agent), { count: 1, failed: 1 });
    assert.equal(await rollUpRuns(engine.context), 0);
  });

  it('is added up without the end of the call where that takes more than an hour', async () => {
    const { run, agent, end } = await cancelled();
    assert.equal(await rollUpRuns(engine.context), 0);
    await ageRun(engine, run);
    assert.equal(await rollUpRuns(engine.context), 1);
    assert.deepEqual(await callsOf(agent), { count: 1, failed: 0 });
    await end();
  });
});
