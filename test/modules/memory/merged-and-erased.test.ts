import assert from 'node:assert/strict';
import { forgetMemories } from '../../../modules/memory/forget-memories.ts';
import { addMemory, toMemoryRow } from '../../../modules/memory/add-memory.ts';
import { changeMemory } from '../../../modules/memory/change-memory.ts';
import { consolidateShortTerm } from '../../../modules/memory/consolidate-short-term.ts';
import { recall } from '../../../modules/memory/recall.ts';
import { eraseRun, eraseThread } from '../../../modules/runs/erase-run.ts';
import { openEngine, text, type Engine } from '../../support/engine.ts';
import { memoriesOf } from '../../support/queries/memory.ts';

describe('What two conversations have said, of which consolidation keeps one', () => {
  let engine: Engine;
  let agent: string;
  const content = 'My daughter is allergic to peanuts.';

  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());
  beforeEach(async () => {
    engine.say(() => text('noted'));
    agent = await engine.agent({});
  });

  /** As a run has said it in a conversation of its own; or a client, of a thread. */
  const say = async (said = content) => {
    const { run, thread } = await engine.start(agent, said);
    await engine.finish(run);
    return { run, thread, id: await add(said, { run }) };
  };
  const add = async (said: string, { run, thread }: { run?: string; thread?: string }): Promise<string> => {
    const memory = { content: said, memory_type: 'SHORT_TERM' as const, relevance_score: 1, thread_id: thread };
    const row = toMemoryRow(memory, { tenantId: engine.tenantId, agentId: agent, origin: 'user', runId: run });
    return (await engine.context.db.withTenant(engine.tenantId, (tx) => addMemory(tx, row))).id;
  };
  const consolidate = async () => {
    const { tenantId } = engine;
    const { workspaceId } = engine.platform;
    const definition = { name: 'a' };
    const how = { strategy: 'importance' as const, maxEntries: 100, at: new Date(), keyId: null };
    const asked = { tenantId, workspaceId, agentId: agent, definition, ...how };
    return (await consolidateShortTerm(engine.context, asked, new AbortController().signal)).merged;
  };
  const left = async () => (await memoriesOf(engine, agent)).map(({ id, status }) => [id, status]);
  const found = async () => {
    const question = { text: 'What is my daughter allergic to?', at: new Date(), topK: 5, model: undefined };
    const asked = { tenantId: engine.tenantId, agentId: agent, operation: 'query' as const };
    return (await recall(engine.context, asked, question)).map(({ entry }) => entry.id);
  };
  const erase = (id: string) => eraseRun(engine.context, engine.caller, { id, dependents: false });

  it('is still known from the others when the one is erased, and from none when all are', async () => {
    const [first, second, third] = [await say(), await say(), await say()];
    assert.equal(await consolidate(), 2);
    // The newest one is the most important.
    assert.deepEqual(await found(), [third.id]);
    await erase(third.run);
    const again = [first.id, second.id];
    assert.deepEqual(
      await left(),
      again.map((id) => [id, 'active']),
    );
    assert.deepEqual((await found()).toSorted(), again);
    assert.equal(await consolidate(), 1, 'as if the third had never been');
    await erase(first.run);
    assert.deepEqual(await found(), [second.id]);
    await erase(second.run);
    assert.deepEqual(await left(), []);
  });

  it('is known from the other also when a thread is erased, and where the one was corrected since', async () => {
    const { thread } = await engine.start(agent, 'hello');
    const first = await say();
    const id = await add(content, { thread });
    assert.equal(await consolidate(), 1);
    const patch = { content: 'My daughter is allergic to nuts.' };
    await engine.context.db.withTenant(engine.tenantId, (tx) =>
      changeMemory(tx, engine.caller, { agentId: agent, id, patch }),
    );
    await eraseThread(engine.context, engine.caller, { id: thread, dependents: true });
    assert.deepEqual(await left(), [[first.id, 'active']]);
  });

  it('is gone from both where it is forgotten', async () => {
    const first = await say();
    const second = await say();
    assert.equal(await consolidate(), 1);
    const what = { ids: [second.id] };
    const { removed } = await engine.context.db.withTenant(engine.tenantId, (tx) =>
      forgetMemories(tx, engine.caller, { agentId: agent, what, dryRun: false }),
    );
    assert.deepEqual([removed.entries, removed.archive], [1, 1]);
    await erase(first.run);
    assert.deepEqual(await left(), []);
  });
});
