import assert from 'node:assert/strict';
import canonicalize from 'canonicalize';
import fc from 'fast-check';
import { canonicalJson, canonicalValue } from '../../core/canonical-json.ts';

describe('canonical JSON', () => {
  const json = fc.jsonValue({ stringUnit: 'binary', maxDepth: 6 });

  it('is what the library writes, whatever the order of the keys, and however they look like numbers', () => {
    const key = fc.oneof(fc.string({ maxLength: 3 }), fc.nat({ max: 30 }).map(String), fc.constant('__proto__'));
    const { tree } = fc.letrec((tie) => ({
      leaf: fc.oneof(json, fc.constant(undefined), fc.constant(-0), fc.date({ noInvalidDate: true })),
      record: fc.array(fc.tuple(key, tie('tree')), { maxLength: 6 }).map((entries) => Object.fromEntries(entries)),
      list: fc.array(tie('tree'), { maxLength: 4 }),
      tree: fc.oneof({ maxDepth: 6 }, tie('leaf'), tie('record'), tie('list')),
    }));
    fc.assert(
      fc.property(tree, (value) => {
        assert.equal(canonicalJson(value), canonicalize(value) ?? 'null');
      }),
      { numRuns: 2000 },
    );
  });

  it('is what the canonical value reads as, and leaves the value itself alone', () => {
    fc.assert(
      fc.property(json, (value) => {
        const before = JSON.stringify(value);
        assert.equal(JSON.stringify(canonicalValue(value)), JSON.stringify(JSON.parse(canonicalJson(value))));
        assert.equal(JSON.stringify(value), before);
      }),
    );
  });

  it('takes a value whose keys are in order as it is', () => {
    const value = { a: [1, { b: 'x', c: null }], d: true };
    assert.equal(canonicalValue(value), value);
    assert.notEqual(canonicalValue({ d: 1, a: value }), value);
    assert.equal(canonicalValue({ d: 1, a: value }).a, value);
  });

  it('refuses what JSON has no word for, and what holds itself', () => {
    const ring: Record<string, unknown> = {};
    ring['ring'] = { again: ring };
    for (const value of [Number.NaN, [Number.POSITIVE_INFINITY], ring]) assert.throws(() => canonicalJson(value));
  });

  it('costs no more than the value is large, however deep it is', () => {
    let deep: unknown = { z: 1, a: 2 };
    for (let level = 0; level < 150; level += 1) deep = { b: 1, a: deep };
    assert.equal(canonicalJson(deep), canonicalize(deep));
    for (let level = 0; level < 1000; level += 1) deep = [deep];
    assert.equal(canonicalJson(deep), canonicalize(deep));
  });
});
