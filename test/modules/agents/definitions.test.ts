import assert from 'node:assert/strict';
import { createDefinitionCache } from '../../../modules/agents/definitions.ts';
import { openEngine, type Engine } from '../../support/engine.ts';
import { storedRun } from '../../support/queries/runs.ts';

describe('the cache of definitions', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine?.close());

  it('answers with all tools of a run that has more of them than are kept', async () => {
    const agentId = await engine.agent({}, [{ name: 'one' }, { name: 'two' }, { name: 'three' }]);
    const { run } = await engine.start(agentId, 'hello');
    const { agent_version: agentVersion, pinned } = await storedRun(engine, run);
    const pins = { tenantId: engine.tenantId, agentId, agentVersion, tools: pinned.tools };
    const cache = createDefinitionCache(engine.context.db, 2);
    for (let time = 1; time <= 3; time++) {
      const { definition, tools } = await cache.load(pins);
      assert.match(definition.name, /^tester /);
      assert.deepEqual([...tools.keys()].map((name) => name.replace(/_.*/, '')).toSorted(), ['one', 'three', 'two']);
    }
  });

  it('has the tools of a run in the same order whatever it has kept of them', async () => {
    const agentId = await engine.agent({}, [{ name: 'one' }, { name: 'two' }]);
    const { run } = await engine.start(agentId, 'hello');
    const { agent_version: agentVersion, pinned } = await storedRun(engine, run);
    const orders = [pinned.tools, pinned.tools.toReversed()];
    for (const tools of orders) {
      const pins = { tenantId: engine.tenantId, agentId, agentVersion, tools };
      for (const kept of tools) {
        const cache = createDefinitionCache(engine.context.db);
        await cache.load({ ...pins, tools: [kept] });
        for (let time = 1; time <= 2; time++) {
          assert.deepEqual(
            [...(await cache.load(pins)).tools.keys()],
            tools.map(({ name }) => name),
          );
        }
      }
    }
  });
});
