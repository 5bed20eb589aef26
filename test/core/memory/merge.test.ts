import assert from 'node:assert/strict';
import fc from 'fast-check';
import { cpuMs } from '../../support/cpu-time.ts';
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

  it('leaves an undecided contradiction as it is, or keeps it as one side of another', () => {
    const [base, open] = [{ a: { x: 1 } }, { conflict: true, a: { x: 2 }, b: { x: 3 } }];
    const beside = mergeThreeWay(base, { a: open }, { a: { x: 1 }, c: 1 });
    assert.deepEqual(beside, { data: { a: open, c: 1 }, conflicts: [] });
    const b = { x: 1, y: 1 };
    const both = mergeThreeWay(base, { a: open }, { a: b });
    assert.deepEqual(both, { data: { a: { conflict: true, a: open, b } }, conflicts: ['a'] });
  });

  it('merges texts by words', () => {
    const { data, conflicts } = mergeThreeWay('one two three four', 'ONE two three four', 'one two three FOUR');
    assert.deepEqual([data, conflicts], ['ONE two three FOUR', []]);
    const same = mergeThreeWay('one two three four', 'ONE TWO three four', 'one TWO three FOUR');
    assert.deepEqual(same.conflicts, ['text'], 'words that follow each other are changed together');
    const both = mergeThreeWay('one, two and three, four', 'ONE, two AND three, four', 'one, two AND three, FOUR');
    assert.deepEqual(both, { data: 'ONE, two AND three, FOUR', conflicts: [] });
  });

  const words = (count: number, kinds: number) =>
    Array.from({ length: count }, (_, n) => `w${(n * n * 7 + n * 3) % kinds}`);

  it('merges long texts by sentences, and by words within those that both have changed', () => {
    const sentences = Array.from({ length: 2000 }, (_, n) => `On day ${n} the ferry to the island was late again. `);
    const said = (changes: Record<number, string>) => sentences.map((each, n) => changes[n] ?? each).join('');
    const [a, b] = [
      said({ 5: 'A. ', 1000: 'On day 1000 the BUS to the island was late again. ' }),
      said({ 1000: 'On day 1000 the ferry to the island was late AGAIN. ', 1990: 'B. ' }),
    ];
    const both = { 5: 'A. ', 1000: 'On day 1000 the BUS to the island was late AGAIN. ', 1990: 'B. ' };
    assert.deepEqual(mergeThreeWay(said({}), a, b), { data: said(both), conflicts: [] });
    const other = mergeThreeWay(said({}), a, said({ 1000: 'On day 1000 the TRAM to the island was late again. ' }));
    assert.deepEqual([other.conflicts, String(other.data).split('<<<<<<< a').length], [['text'], 2]);
  });

  it('takes no longer for texts that repeat themselves, of which it keeps both where they are too much alike', () => {
    const started = cpuMs();
    for (const [base, a, b] of [
      [words(20_000, 1), words(18_000, 1), words(19_000, 2)],
      [words(7000, 5), words(7100, 5), words(7200, 5)],
      [words(40_000, 300), words(39_000, 300), words(40_100, 300)],
      [words(20_000, 3).map((word) => `${word}.`), words(19_000, 3).map((word) => `${word}.`), words(18_000, 2)],
    ].map((each) => each.map((side) => side.join(' ')))) {
      const { data, conflicts } = mergeThreeWay(base, a, b);
      assert.deepEqual(conflicts, ['text']);
      assert.ok(String(data).includes(String(b).slice(-40)));
    }
    assert.ok(cpuMs() - started < 5000);
  });

  it('takes no longer for many conflicts, of which it keeps both sides where its time is over', () => {
    const text = (more: number) =>
      Array.from({ length: 120 }, (_, n) => `${'word '.repeat(600 + more)}${n}. Sentence ${n} stays.`).join(' ');
    const started = cpuMs();
    const { data, conflicts } = mergeThreeWay(text(0), text(1), text(2));
    const spent = cpuMs() - started;
    assert.deepEqual(conflicts, ['text']);
    assert.match(String(data), /Sentence 119 stays/);
    assert.ok(spent < 4000, `${spent} ms`);
  });

  it('finds the same conflicts from either side, whatever the texts, and takes what one alone has changed', () => {
    const text = fc
      .array(fc.constantFrom('a', 'b', 'c. ', '\n', ' ', 'd! '), { maxLength: 30 })
      .map((parts) => parts.join(''));
    fc.assert(
      fc.property(text, text, text, (base, a, b) => {
        const merged = mergeThreeWay(base, a, b);
        assert.deepEqual(merged.conflicts, mergeThreeWay(base, b, a).conflicts);
        assert.deepEqual(mergeThreeWay(base, a, base).data, a);
      }),
    );
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
