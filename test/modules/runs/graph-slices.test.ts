import assert from 'node:assert/strict';
import { cpuMs } from '../../support/cpu-time.ts';
import { openEngine, type Engine } from '../../support/engine.ts';
import { statusOfRun } from '../../support/queries/runs.ts';

/** What passes at each look at the clock, in ms. */
const TICK_MS = 2000;

describe('A graph that calls nothing', () => {
  let engine: Engine;

  const router = (name: string) => ({ name, type: 'router' as const, config: {} });

  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());

  it('has its run go back to the queue after a slice of time, with the visits so far', async () => {
    const edges = [{ from: 'spin', to: 'spin' }];
    const agent = await engine.agent({ workflow_graph: { entry_point: 'spin', nodes: [router('spin')], edges } });
    const { run } = await engine.start(agent, 'Go');
    const now = performance.now.bind(performance);
    let ticks = 0;
    performance.now = () => now() + TICK_MS * (ticks += 1);
    try {
      assert.equal(await engine.drive(run), 'yielded');
    } finally {
      performance.now = now;
    }
    const visits = async () => (await engine.log(run)).filter(({ type }) => type === 'node.entered').length;
    const before = await visits();
    assert.ok(before > 0 && before < 25, `${before} visits of 100`);
    await engine.finish(run);
    assert.equal(await visits(), 100);
  });

  it('leaves the process to others while it holds hundreds of conditions against a large input', async () => {
    const condition = 'input.items.exists(item, item == 2)';
    const edges = Array.from({ length: 300 }, () => ({ from: 'choose', to: 'never', condition }));
    const nodes = [router('choose'), router('never')];
    const agent = await engine.agent({ workflow_graph: { entry_point: 'choose', nodes, edges } });
    const { run } = await engine.start(agent, JSON.stringify({ items: Array.from({ length: 700 }, () => 1) }));
    const beforeMs = cpuMs();
    // The longest work at a time, of all the work: how fast the machine is does not matter.
    let turnedMs = beforeMs;
    let longestMs = 0;
    let isOver = false;
    const turn = () => {
      longestMs = Math.max(longestMs, cpuMs() - turnedMs);
      turnedMs = cpuMs();
      if (!isOver) setImmediate(turn);
    };
    setImmediate(turn);
    assert.equal(await engine.drive(run), 'dormant');
    isOver = true;
    const allMs = cpuMs() - beforeMs;
    assert.equal(await statusOfRun(engine, run), 'completed');
    assert.ok(longestMs < allMs / 2, `${longestMs} of ${allMs} ms at once`);
  });
});
