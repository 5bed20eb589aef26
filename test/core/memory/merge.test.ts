import assert from 'node:assert/strict';
import fc from 'fast-check';
import { mergeThreeWay } from '../../../core/memory/merge.ts';

const fields = fc.dictionary(fc.constantFrom('a', 'b', 'c', 'd', '__proto__'), fc.oneof(fc.nat(2), fc.constant('x')), {
  noNullPrototype: true,
});

describe('a three-way merge', () => {
  it('takes each side’s own changes', () => {
    assert.deepEqual(mergeThreeWay({ a: 1, b: 1 }, { a: 2, b: 1 }, { a: 1, b: 3 }), {
      data: { a: 2, b: 3 },
      conflicts: [],
    });
    assert.deepEqual(mergeThreeWay({ a: 1, b: 1 }, { b: 1 }, { a: 1, b: 2 }), { data: { b: 2 }, conflicts: [] });
    assert.deepEqual(mergeThreeWay({ a: { x: 1, y: 1 } }, { a: { x: 2, y: 1 } }, { a: { x: 1, y: 2 } }).data, {
      a: { x: 2, y: 2 },
    });
  });

  it('keeps both sides of a conflict, and names it', () => {
    const { data, conflicts } = mergeThreeWay({ a: 1 }, { a: 2 }, { a: 3 });
    assert.deepEqual([data, conflicts], [{ a: { conflict: true, a: 2, b: 3 } }, ['a']]);
    const text = mergeThreeWay('we meet on Monday', 'we meet on Tuesday', 'we meet on Friday');
    assert.deepEqual(text.conflicts, ['text']);
    assert.match(String(text.data), /Tuesday[^]*Friday/);
  });

  it('merges texts by words', () => {
    const { data, conflicts } = mergeThreeWay('one two three four', 'ONE two three four', 'one two three FOUR');
    assert.deepEqual([data, conflicts], ['ONE two three FOUR', []]);
  });

  it('changes nothing that nobody has changed, and takes what one alone has', () => {
    fc.assert(
      fc.property(fields, fields, (base, changed) => {
        assert.deepEqual(mergeThreeWay(base, base, base), { data: base, conflicts: [] });
        assert.deepEqual(mergeThreeWay(base, changed, base), { data: changed, conflicts: [] });
        assert.deepEqual(mergeThreeWay(base, base, changed), { data: changed, conflicts: [] });
        assert.deepEqual(mergeThreeWay(base, changed, changed), { data: changed, conflicts: [] });
      }),
    );
  });

  it('finds the same conflicts from either side, and loses no key that somebody has kept', () => {
    fc.assert(
      fc.property(fields, fields, fields, (base, a, b) => {
        const [one, other] = [mergeThreeWay(base, a, b), mergeThreeWay(base, b, a)];
        assert.deepEqual(one.conflicts, other.conflicts);
        const keys = Object.keys(one.data as object);
        assert.deepEqual(keys.toSorted(), Object.keys(other.data as object).toSorted());
        for (const key of Object.keys(a)) if (Object.hasOwn(b, key)) assert.ok(keys.includes(key), key);
        if (one.conflicts.length === 0) assert.deepEqual(one.data, other.data);
      }),
    );
  });
});
