import assert from 'node:assert/strict';
import fc from 'fast-check';
import { isLargerThan } from '../../core/content.ts';
import { countingValues, holdsMoreValues } from '../../lib/json-size.ts';

/** What `holdsMoreValues` counts, by the value that was parsed. */
function countIn(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  const inside = Object.values(value);
  return 1 + Math.max(inside.length - 1, 0) + inside.reduce((sum: number, item) => sum + countIn(item), 0);
}

describe('the values of JSON', () => {
  it('are counted as its commas, lists and objects, whatever its strings hold', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.boolean(), (value, isSpaced) => {
        const json = JSON.stringify(value, null, isSpaced ? 2 : 0);
        const count = countIn(JSON.parse(json));
        assert.equal(holdsMoreValues(json, count), false);
        if (count > 0) assert.equal(holdsMoreValues(json, count - 1), true);
        assert.equal(isLargerThan(JSON.parse(json), count), false);
        if (count > 0) assert.equal(isLargerThan(JSON.parse(json), count - 1), true);
        const counting = countingValues();
        const counts = Array.from(Buffer.from(json), (byte) => counting(Uint8Array.of(byte)));
        assert.equal(counts.at(-1), count);
      }),
    );
  });
});
