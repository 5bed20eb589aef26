import assert from 'node:assert/strict';
import fc from 'fast-check';
import { backoffMs, jitteredMs, lengthenedMs } from '../../core/backoff.ts';

const pauses = fc.integer({ min: 0, max: 3_600_000 });
const chances = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
const attempts = fc.integer({ min: 1, max: 5000 });

describe('A pause before another attempt', () => {
  it('begins with the first, doubles each time, and is never longer than the longest', () => {
    fc.assert(
      fc.property(pauses, pauses, attempts, (firstMs, moreMs, attempt) => {
        const mostMs = firstMs + moreMs;
        const pause = (at: number) => backoffMs({ firstMs, mostMs, attempt: at });
        assert.equal(pause(1), firstMs);
        assert.equal(pause(attempt + 1), Math.min(2 * pause(attempt), mostMs));
      }),
    );
  });

  it('has a share of it, up or down, left to chance', () => {
    const shares = fc.double({ min: 0, max: 1, noNaN: true });
    fc.assert(
      fc.property(pauses, shares, chances, (ms, share, chance) => {
        const off = Math.abs(jitteredMs(ms, share, chance) - ms);
        assert.ok(off <= ms * share + 0.5, `${off} of ${ms}`);
      }),
    );
    assert.deepEqual([jitteredMs(1000, 0.25, 0), jitteredMs(1000, 0.25, 0.5)], [750, 1000]);
  });

  it('that was asked for is never shortened, and up to a tenth longer', () => {
    fc.assert(
      fc.property(pauses, chances, (ms, chance) => {
        const lengthened = lengthenedMs(ms, chance);
        assert.ok(Number.isInteger(lengthened) && lengthened >= ms && lengthened <= Math.ceil(ms * 1.1));
      }),
    );
    assert.deepEqual([lengthenedMs(1000, 0), lengthenedMs(1000, 0.5)], [1000, 1050]);
  });
});
