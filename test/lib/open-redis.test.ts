import assert from 'node:assert/strict';
import fc from 'fast-check';
import { reconnectAfterMs } from '../../lib/open-redis.ts';

describe('A connection to Redis that is lost', () => {
  it('is tried again after longer and longer, up to 2 s, and a quarter of that is left to chance', () => {
    const chances = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 100_000 }), chances, (attempt, chance) => {
        const middleMs = reconnectAfterMs(attempt, 0.5);
        assert.ok(middleMs >= 100 && middleMs <= 1600 && middleMs <= reconnectAfterMs(attempt + 1, 0.5));
        const afterMs = reconnectAfterMs(attempt, chance);
        assert.ok(Math.abs(afterMs - middleMs) <= middleMs / 4, `${afterMs}, ${middleMs}`);
      }),
    );
    assert.deepEqual(
      [1, 2, 3].map((attempt) => reconnectAfterMs(attempt, 0)),
      [75, 150, 300],
    );
  });
});
