import assert from 'node:assert/strict';
import { readUsage } from '../../../db/dashboard.ts';
import { rollUpRuns } from '../../../modules/dashboard/roll-up-usage.ts';
import { cancelRun } from '../../../modules/runs/end-run.ts';
import { door, offered, openEngine, text, use, type Engine } from '../../support/engine.ts';
import { ageRun, ageTurns } from '../../support/queries/runs.ts';

describe('The usage of a run that ends in the middle of its work', () => {
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

  /** Cancelled while a model answers, of which the driver does not hear before `hear`. */
  async function cancelledInAnswer() {
    const { context, tenantId } = engine;
    const agent = await engine.agent({ llm_config: { default_model: 'claude-sonnet-5' } });
    engine.say(() => ({ ...text('word '.repeat(400)), usage: { input_tokens: 1234, output_tokens: 1 }, hang: true }));
    const { run } = await engine.start(agent, 'go');
    const [answering, told] = [door(), door()];
    const leave = context.bus.watch(run, (message) => {
      if (message.kind === 'delta') void answering.pass();
    });
    const subscribe: typeof context.bus.subscribe = (subject, listener) =>
      context.bus.subscribe(subject, (message) => void told.pass().then(() => listener(message)));
    const driving = engine.drive(run, { ...context, bus: { ...context.bus, subscribe } });
    await answering.reached;
    await cancelRun(context, { tenantId, runId: run });
    const hear = () => {
      told.open();
      return driving.finally(leave);
    };
    return { run, agent, hear };
  }

  async function readAll(agentId: string, kind: 'tool' | 'model') {
    const { context, tenantId, platform } = engine;
    const days = { from: '2000-01-01', to: '2100-01-01' };
    const filter = { tenantId, workspaceId: platform.workspaceId, agentId, ...days };
    return context.db.withTenant(tenantId, (tx) => readUsage(tx, { ...filter, by: 'all', kinds: [kind] }));
  }

  async function callsOf(agentId: string): Promise<{ count: number; failed: number } | undefined> {
    const [usage] = await readAll(agentId, 'tool');
    return usage && { count: usage.count, failed: usage.failed };
  }

  async function tokensOf(agentId: string): Promise<number[]> {
    const used = await readAll(agentId, 'model');
    return used.flatMap(({ tokens_in, tokens_out }) => [tokens_in, tokens_out]);
  }

  it('is added up with what an answer has cost whose driver hears late of the end, and shown meanwhile', async () => {
    const { run, agent, hear } = await cancelledInAnswer();
    assert.equal(await rollUpRuns(engine.context), 0);
    assert.equal(await hear(), 'lost');
    const [input, output] = await tokensOf(agent);
    assert.ok(input === 1234 && (output ?? 0) >= 400, `${input}, ${output}`);
    assert.equal(await rollUpRuns(engine.context), 0);
    await ageTurns(engine, run);
    assert.equal(await rollUpRuns(engine.context), 1);
    assert.deepEqual(await tokensOf(agent), [input, output]);
  });

  it('is added up once the call has ended, with what came of it', async () => {
    const { run, agent, end } = await cancelled();
    await ageTurns(engine, run);
    assert.equal(await rollUpRuns(engine.context), 0);
    await end();
    assert.deepEqual(await callsOf(agent), { count: 1, failed: 1 });
    assert.equal(await rollUpRuns(engine.context), 1);
    assert.deepEqual(await callsOf(agent), { count: 1, failed: 1 });
    assert.equal(await rollUpRuns(engine.context), 0);
  });

  it('is added up without the end of the call where that takes more than an hour', async () => {
    const { run, agent, end } = await cancelled();
    await ageTurns(engine, run);
    assert.equal(await rollUpRuns(engine.context), 0);
    await ageRun(engine, run);
    assert.equal(await rollUpRuns(engine.context), 1);
    assert.deepEqual(await callsOf(agent), { count: 1, failed: 0 });
    await end();
  });
});
