import assert from 'node:assert/strict';
import fc from 'fast-check';
import { losesDigits, parseKeepingDigits } from '../../lib/json-integers.ts';

describe('Integers in JSON', () => {
  it('beyond 2^53 are kept as strings of their digits, wherever they stand', () => {
    const json = '{"id": 9007199254740993, "ids": [-12345678901234567890,1], "same": 9007199254740991}';
    assert.deepEqual(parseKeepingDigits(json), {
      id: '9007199254740993',
      ids: ['-12345678901234567890', 1],
      same: 9007199254740991,
    });
    assert.equal(parseKeepingDigits(' 12345678901234567890 '), '12345678901234567890');
  });

  it('are no others: no fractions, no exponents, nothing in strings or keys', () => {
    const json = String.raw`{"12345678901234567890":"say \"12345678901234567890\" \\", "n": 12345678901234567890.5, "e": 1e30}`;
    assert.equal(losesDigits(json), false);
    assert.deepEqual(parseKeepingDigits(json), JSON.parse(json));
  });

  it('change nothing else of any JSON', () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 4 }), fc.bigInt(), (json, integer) => {
        const isKept = BigInt(Number(integer)) === integer && Number.isSafeInteger(Number(integer));
        const { a, b } = parseKeepingDigits(`{"a":${json},"b":${integer}}`) as Record<string, unknown>;
        assert.deepEqual(b, isKept ? Number(integer) : String(integer));
        if (!losesDigits(json)) assert.deepEqual(a, JSON.parse(json));
      }),
    );
  });

  it('of a text of megabytes are found in it', () => {
    const json = `{"text":"${String.raw`\"`.repeat(2_000_000)}","id":9007199254740993}`;
    assert.equal((parseKeepingDigits(json) as { id: unknown }).id, '9007199254740993');
    assert.throws(() => parseKeepingDigits('{"id": 9007199254740993'), SyntaxError);
  });
});
