import assert from 'node:assert/strict';
import { ensureMemoryIndex } from '../../../db/memory-index.ts';
import { findCandidates, type MemoryScope } from '../../../db/memory-search.ts';
import { newId } from '../../../lib/new-id.ts';
import { openTestPlatform, type TestPlatform } from '../../support/platform.ts';
import { addVectors, scanAtMost } from '../../support/queries/memory.ts';

/** What a search by the index looks at before it gives up here, and how many more are nearer. */
const SCANNED = 500;
const NEARER = 3000;
const OWN = 3300;
const MODEL = 'openai/eight-numbers';

describe('The search by vectors', function () {
  this.timeout(300_000);
  let test: TestPlatform;
  const [crowd, agent] = [newId(), newId()];

  before(async () => {
    test = await openTestPlatform();
    await fill(crowd, { count: NEARER, thread: 'other', away: 0.001 });
    await fill(agent, { count: OWN, thread: 'long', away: 0.5 });
    await fill(agent, { count: 20, thread: 'short', away: 0.9 });
    await ensureMemoryIndex(test.context.db, { model: MODEL, dimensions: 8 });
  });
  after(() => test.close());

  /** Entries `away` from the question, each a little different. */
  const fill = (agentId: string, { count, thread, away }: { count: number; thread: string; away: number }) =>
    addVectors(test, agentId, { model: MODEL, thread, away, count });
  const near = async (scope: Omit<MemoryScope, 'agentId'> = {}) => {
    const vector = { model: MODEL, vector: '[1,0,0,0,0,0,0,0]', dimensions: 8 };
    const of = { agentId: agent, ...scope };
    return test.context.db.withTenant(test.tenantId, async (tx) => {
      await scanAtMost(tx, SCANNED);
      return findCandidates(tx, of, { text: '', vector });
    });
  };
  const threads = async (scope: Omit<MemoryScope, 'agentId'>) => (await near(scope)).map((each) => each.thread_id);

  it('finds what an agent has, however much of others is nearer', async () => {
    const found = await near();
    assert.ok(found.length >= 100, `${found.length}`);
    assert.deepEqual([...new Set(found.map((each) => each.agent_id))], [agent]);
  });

  it('finds what a thread, a type or a user has, however much of the agent’s own is nearer', async () => {
    const short = Array.from({ length: 20 }, () => 'short');
    assert.deepEqual(await threads({ threadId: 'short' }), short);
    assert.deepEqual(await threads({ memoryTypes: ['PROCEDURAL'] }), short);
    assert.deepEqual(await threads({ ownedBy: { userId: 'short', threadId: undefined } }), short);
  });
});
