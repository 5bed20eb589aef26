import assert from 'node:assert/strict';
import { ensureMemoryIndex } from '../../../db/memory-index.ts';
import { searchFragments } from '../../../db/fragment-search.ts';
import { findCandidates, type MemoryScope } from '../../../db/memory-search.ts';
import type { Tx } from '../../../db/database.ts';
import { newId } from '../../../lib/new-id.ts';
import { forbidSorting, planOf } from '../../support/queries/postgres.ts';
import { openTestPlatform, type TestPlatform } from '../../support/platform.ts';
import { addFragmentVectors, addSpace, addVectors, scanAtMost } from '../../support/queries/memory.ts';

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
    await ensureMemoryIndex(test.context.db, { owner: 'memory_entries', model: MODEL, dimensions: 8 });
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

  it('finds in a space what an agent may see of it, however much else is there or in others', async () => {
    const [crowded, own] = [await addSpace(test), await addSpace(test)];
    const many = { model: MODEL, word: 'crowd', denied: ['zed'], away: 0.001, count: NEARER + 500 };
    await addFragmentVectors(test, crowded, many);
    await addFragmentVectors(test, crowded, { ...many, word: 'own', denied: [], away: 0.9, count: 20 });
    await addFragmentVectors(test, own, { ...many, word: 'own', denied: [], away: 0.9, count: OWN });
    await ensureMemoryIndex(test.context.db, { owner: 'memory_fragments', model: MODEL, dimensions: 8 });
    const vector = { model: MODEL, vector: '[1,0,0,0,0,0,0,0]', dimensions: 8 };
    const plans: string[] = [];
    const search = (spaceId: string, agentId: string | null, text = '') =>
      test.context.db.withTenant(test.tenantId, async (tx) => {
        await scanAtMost(tx, SCANNED);
        await forbidSorting(tx);
        const watched: Tx = {
          ...tx,
          async query(sql, values) {
            plans.push(await planOf(tx, sql, values));
            return tx.query(sql, values);
          },
        };
        const found = await searchFragments(watched, { spaceIds: [spaceId], agentId, limit: 10 }, { text, vector });
        return found.map(({ content, lexical }) => [content.data, lexical > 0]);
      });
    const ten = (word: string, byWord = false) => Array.from({ length: 10 }, () => [word, byWord]);
    assert.deepEqual(await search(crowded, 'zed'), ten('own'));
    assert.deepEqual(await search(crowded, 'zed', 'common'), ten('own', true));
    assert.equal(
      plans.some((plan) => plan.includes('memory_fragments_near_')),
      false,
      'few are compared one by one',
    );
    assert.deepEqual(await search(crowded, null), ten('crowd'));
    assert.ok(
      plans.some((plan) => plan.includes('using memory_fragments_near_')),
      'of many the index gives the nearest',
    );
    assert.deepEqual(await search(crowded, null, 'common'), ten('crowd', true));
    assert.deepEqual(await search(own, 'zed'), ten('own'), 'of many, though the nearest are those of another space');
  });

  it('finds what a thread, a type or a user has, however much of the agent’s own is nearer', async () => {
    const short = Array.from({ length: 20 }, () => 'short');
    assert.deepEqual(await threads({ threadId: 'short' }), short);
    assert.deepEqual(await threads({ memoryTypes: ['PROCEDURAL'] }), short);
    assert.deepEqual(await threads({ ownedBy: { userId: 'short', threadId: undefined } }), short);
  });
});
