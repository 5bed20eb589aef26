import assert from 'node:assert/strict';
import type { Tx } from '../../db/database.ts';
import { findForgetTargets } from '../../db/memory-forget.ts';
import { listMemories } from '../../db/memory-pages.ts';
import { newId } from '../../lib/new-id.ts';
import { openTestPlatform, type TestPlatform } from '../support/platform.ts';
import { addVectors } from '../support/queries/memory.ts';
import { analyze, explaining } from '../support/queries/postgres.ts';

describe('Of an agent with many memories', () => {
  let test: TestPlatform;
  const agent = newId();
  before(async () => {
    test = await openTestPlatform();
    await addVectors(test, agent, { model: 'test/eight', thread: 'a', away: 0.5, count: 3000 });
    await analyze(test.context.db);
  });
  after(() => test.close());

  const plansOf = async (read: (tx: Tx) => Promise<unknown>): Promise<string> => {
    const plans: string[] = [];
    await test.context.db.withTenant(test.tenantId, (tx) => read(explaining(tx, (plan) => plans.push(plan))));
    return plans.join('\n');
  };

  it('the list reads a page in its order', async () => {
    const plans = await plansOf((tx) => listMemories(tx, { agentId: agent, status: 'active', limit: 50 }));
    assert.match(plans, /using memory_entries_listed/i);
    assert.doesNotMatch(plans, /Seq Scan|Sort Key: memory_entries/);
    const after = { importance: 0.5, id: newId() };
    const next = await plansOf((tx) => listMemories(tx, { agentId: agent, status: 'active', after, limit: 50 }));
    assert.match(next, /Index Cond: .*importance <= /);
  });

  it('forgetting reads what it removes, and none of the others', async () => {
    const plans = await plansOf((tx) => findForgetTargets(tx, { agentId: agent, ids: [newId()] }));
    assert.doesNotMatch(plans, /Seq Scan on memory_entries/);
  });
});
