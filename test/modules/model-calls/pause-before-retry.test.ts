import assert from 'node:assert/strict';
import fc from 'fast-check';
import { LONGEST_WAIT_MS, pauseBeforeRetry } from '../../../modules/model-calls/pause-before-retry.ts';

const chances = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

describe('The pause before a model is asked again', () => {
  it('is what the provider asks for and up to a tenth more, or none where that is too long to wait', () => {
    fc.assert(
      fc.property(fc.nat(2 * LONGEST_WAIT_MS), chances, (retryAfterMs, chance) => {
        const pauseMs = pauseBeforeRetry({ retryAfterMs }, { firstMs: 1000, attempt: 1 }, chance);
        if (retryAfterMs > LONGEST_WAIT_MS) assert.equal(pauseMs, undefined);
        else assert.ok(pauseMs !== undefined && pauseMs >= retryAfterMs && pauseMs <= Math.ceil(1.1 * retryAfterMs));
      }),
    );
    assert.equal(pauseBeforeRetry({ retryAfterMs: 2000 }, { firstMs: 1000, attempt: 1 }, 0.5), 2100);
  });

  it('is doubled each time where the provider asks for none, give or take a half', () => {
    const pauseAfter = (attempt: number, chance: number) =>
      pauseBeforeRetry({ retryAfterMs: undefined }, { firstMs: 1000, attempt }, chance);
    assert.deepEqual([pauseAfter(1, 0), pauseAfter(2, 0.5), pauseAfter(3, 0.5)], [500, 2000, 4000]);
    assert.equal(pauseAfter(5, 0.5), undefined);
  });
});
