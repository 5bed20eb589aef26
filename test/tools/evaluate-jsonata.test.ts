import assert from 'node:assert/strict';
import { evaluateJsonata } from '../../tools/evaluate-jsonata.ts';

/** Takes all the time that it has. */
const ENDLESS = '($f := function($x) { $f($x + 1) }; $f(1))';

describe('JSONata expressions that wait for each other', () => {
  const ends: string[] = [];
  const evaluate = async (name: string, of: { tenantId: string; text: string }, timeoutMs = 20_000) => {
    const evaluated = await evaluateJsonata({ data: { n: 20 }, ...of }, timeoutMs);
    ends.push(name);
    return evaluated;
  };
  beforeEach(async () => {
    // Both processes have begun.
    await Promise.all(['one', 'two'].map((tenantId) => evaluate('', { tenantId, text: 'n' })));
    ends.length = 0;
  });

  it('do so within a tenant: another one has its answer before', async () => {
    const slow = [1, 2].map((n) => evaluate(`slow ${n}`, { tenantId: 'one', text: ENDLESS }));
    assert.deepEqual(await evaluate('quick', { tenantId: 'two', text: 'n + 1' }), { result: 21 });
    assert.deepEqual(ends, ['quick']);
    for (const each of await Promise.all(slow)) assert.ok('fault' in each);
    assert.deepEqual(ends, ['quick', 'slow 1', 'slow 2']);
  });

  it('are too slow once their time is over, before it is their turn', async () => {
    const slow = evaluate('slow', { tenantId: 'one', text: ENDLESS });
    const waiting = await evaluate('waiting', { tenantId: 'one', text: 'n' }, 50);
    assert.ok('fault' in waiting && waiting.fault === 'too-slow');
    assert.deepEqual(ends, ['waiting']);
    await slow;
  });
});
