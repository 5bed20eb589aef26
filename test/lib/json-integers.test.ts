import assert from 'node:assert/strict';
import fc from 'fast-check';
import { findRounded, losesDigits, parseKeepingDigits } from '../../lib/json-integers.ts';

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

  it('are kept, as any number beyond those of a double, as they are written', () => {
    const many = `${'9'.repeat(400)}.5`;
    const json = `{"a": [1e999, -1E+0400, 1e308, 1e-999, "1e999"], "many": ${many}}`;
    assert.deepEqual(parseKeepingDigits(json), { a: ['1e999', '-1E+0400', 1e308, 0, '1e999'], many });
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

  it('that are other ones once written again are found where they stand, though a double holds them; those that it writes so are not', () => {
    const json =
      '{"a": [1, {"b c": -9007199254740993}], "1": 12345678901234567891, "power": 1152921504606846976, "as written": [9007199254740992, 1152921504606847000, -1000000000000000000000], "e": 1e20}';
    assert.deepEqual([...findRounded(json)], [['1'], ['a', 1, 'b c'], ['power']]);
    const others =
      '{"12345678901234567891": "9007199254740993", "n": 12345678901234567.5, "twice": 9007199254740993, "twice": 1}';
    assert.deepEqual([...findRounded(others)], []);
  });

  it('are found exactly where what is written for them is another number', () => {
    const integer = fc.oneof(fc.bigInt(), fc.bigInt({ min: -(2n ** 70n), max: 2n ** 70n }), power(), nextToPower());
    fc.assert(
      fc.property(fc.json({ maxDepth: 4 }), fc.array(integer), (json, integers) => {
        const isKept = (each: bigint) => each === plain(Number(each));
        const expected = integers.flatMap((each, n) => (isKept(each) ? [] : [['b', n]]));
        const all = [...findRounded(`{"a":${json},"b":[${integers.join(',')}]}`)];
        assert.deepEqual(
          all.filter(([key]) => key === 'b'),
          expected,
        );
      }),
    );
  });
  /** What `String` writes of an integer, its exponent as noughts. */
  const plain = (value: number): bigint | undefined => {
    const [, sign = '', first = '', more = '', exponent] = /^(-?)(\d)\.?(\d*)(?:e\+(\d+))?$/.exec(String(value)) ?? [];
    return first === '' ? undefined : BigInt(sign + first + (exponent ? more.padEnd(Number(exponent), '0') : more));
  };
  const power = () => fc.integer({ min: 50, max: 1000 }).map((exponent) => 2n ** BigInt(exponent));
  const nextToPower = () => power().chain((each) => fc.constantFrom(each + 1n, each - 1n, -each, 1n - each));
});
