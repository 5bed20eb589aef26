import assert from 'node:assert/strict';
import fc from 'fast-check';
import {
  candidatesOf,
  importanceOf,
  planConsolidation,
  shorten,
  type ConsolidationSettings,
  type ShortTermEntry,
} from '../../../core/memory/consolidation.ts';
import { junkRuleOf } from '../../../core/memory/junk.ts';

const AT = new Date('2026-03-18T12:00:00Z');
const HOUR_MS = 3_600_000;
const ago = (hours: number) => new Date(AT.getTime() - hours * HOUR_MS);

const SETTINGS: ConsolidationSettings = {
  minAgeHours: 24,
  maxTokens: 1000,
  importanceThreshold: 0.5,
  maxEntryTokens: 50,
  archiveEvicted: true,
  halfLifeHours: 168,
};

function entry(id: string, over: Partial<ShortTermEntry> = {}): ShortTermEntry {
  return {
    id,
    content: `content of ${id}`,
    memory_type: 'SHORT_TERM',
    importance: 0.5,
    relevance_score: 0.5,
    access_count: 0,
    last_accessed: null,
    created_at: ago(48),
    tokens: 10,
    is_profile: false,
    is_disputed: false,
    ...over,
  };
}

describe('the importance of a memory', () => {
  const of = (over: Partial<ShortTermEntry>) => importanceOf(entry('a', over), { at: AT, halfLifeHours: 168 });

  it('is 0.3 recency, 0.3 frequency and 0.4 relevance', () => {
    assert.equal(of({ last_accessed: AT, relevance_score: 1 }), 0.7);
    assert.ok(Math.abs(of({ last_accessed: ago(168), relevance_score: 0 }) - 0.3 * Math.exp(-1)) < 1e-9);
    const used = of({ last_accessed: ago(1e6), access_count: 2, relevance_score: 0 });
    assert.ok(Math.abs(used - 0.3 * Math.log(3)) < 1e-9);
  });

  it('is from 0 to 1 and grows with use, relevance and newness, whatever the entry', () => {
    const one = fc.record({
      hours: fc.nat(1e5),
      uses: fc.nat(1e6),
      relevance: fc.double({ min: 0, max: 1, noNaN: true }),
    });
    const score = (each: { hours: number; uses: number; relevance: number }) =>
      of({ last_accessed: ago(each.hours), access_count: each.uses, relevance_score: each.relevance });
    fc.assert(
      fc.property(one, (each) => {
        const base = score(each);
        assert.ok(base >= 0 && base <= 1);
        assert.ok(score({ ...each, uses: each.uses + 1 }) >= base);
        assert.ok(score({ ...each, hours: each.hours + 1 }) <= base);
        assert.ok(score({ ...each, relevance: 1 }) >= base);
      }),
    );
  });
});

describe('the candidates of a consolidation', () => {
  const asked = { at: AT, maxEntries: 100, settings: SETTINGS };
  const ids = (entries: ShortTermEntry[]) => entries.map(({ id }) => id);

  it('are old by age, and the oldest beyond the token budget', () => {
    const young = entry('young', { created_at: ago(1) });
    assert.deepEqual(ids(candidatesOf([young, entry('old')], { ...asked, strategy: 'age' })), ['old']);
    const large = [
      entry('first', { created_at: ago(2), tokens: 600 }),
      entry('second', { created_at: ago(1), tokens: 600 }),
    ];
    assert.deepEqual(ids(candidatesOf(large, { ...asked, strategy: 'age' })), ['first']);
  });

  it('are all by importance, the most important first, as many as are asked for', () => {
    const some = [entry('less'), entry('more', { relevance_score: 0.9 })];
    assert.deepEqual(ids(candidatesOf(some, { ...asked, strategy: 'importance' })), ['more', 'less']);
    assert.deepEqual(ids(candidatesOf(some, { ...asked, strategy: 'importance', maxEntries: 1 })), ['more']);
  });
});

describe('the plan of a consolidation', () => {
  const plan = (entries: ShortTermEntry[], similar: Parameters<typeof planConsolidation>[1] = []) =>
    planConsolidation(entries, similar, { at: AT, settings: SETTINGS });
  const vital = { relevance_score: 1, last_accessed: AT };

  it('keeps what is important, shortens what is long and evicts the rest', () => {
    const long = { ...vital, tokens: 500, content: 'Ada lives in Oslo. '.repeat(100) };
    const { kept, summarized, evicted } = plan([
      entry('a', vital),
      entry('b', long),
      entry('c', { relevance_score: 0 }),
    ]);
    assert.deepEqual([kept.map(({ id }) => id), summarized.map(({ id }) => id), evicted], [['a'], ['b'], ['c']]);
    assert.ok((summarized[0]?.content.length ?? 999) <= 200);
  });

  it('merges nothing into what says another number, name or word, or the opposite, however near that is', () => {
    const own = entry('a', { ...vital, content: 'Ada pays 40 euros.' });
    const others = [
      'Ada really pays 40 euros.',
      'Ada got 40 euros.',
      'Ada pays 41 euros.',
      'Ada pays Bob 40 euros.',
      'Ada never pays 40 euros.',
    ];
    const merged = others.map((content) => plan([own], [{ id: 'a', other: 'z', content }]).merged.length);
    assert.deepEqual(merged, [1, 0, 0, 0, 0]);
  });

  it('merges what is remembered already, and never both of two into each other', () => {
    const [a, b] = [entry('a', { ...vital, content: 'same' }), entry('b', { ...vital, content: 'same' })];
    const both = [
      { id: 'a', other: 'b', content: 'same' },
      { id: 'b', other: 'a', content: 'same' },
    ];
    const { kept, merged } = plan([a, b], both);
    assert.deepEqual([kept.map(({ id }) => id), merged], [['a'], [{ id: 'b', into: 'a' }]]);
  });

  it('never evicts what is always loaded', () => {
    assert.deepEqual(plan([entry('a', { relevance_score: 0, is_profile: true })]).evicted, []);
  });

  it('leaves what is disputed as it is, until somebody has decided', () => {
    const disputed = { is_disputed: true };
    const [a, b, c] = [
      entry('a', { ...disputed, relevance_score: 0 }),
      entry('b', { ...vital, ...disputed, tokens: 51 }),
      entry('c', { ...vital, ...disputed }),
    ];
    const { kept, ...others } = plan([a, b, c], [{ id: 'c', other: 'long ago', content: c.content }]);
    assert.deepEqual(
      [kept.map(({ id }) => id), others],
      [['a', 'b', 'c'], { summarized: [], merged: [], evicted: [] }],
    );
  });

  it('does one thing with each candidate, whatever they are', () => {
    const entries = fc.uniqueArray(
      fc.record({
        id: fc.string({ minLength: 1, maxLength: 3 }),
        relevance: fc.double({ min: 0, max: 1, noNaN: true }),
        tokens: fc.nat(100),
      }),
      { selector: ({ id }) => id },
    );
    fc.assert(
      fc.property(entries, fc.array(fc.tuple(fc.nat(9), fc.nat(9))), (list, pairs) => {
        const all = list.map(({ id, relevance, tokens }) =>
          entry(id, { relevance_score: relevance, tokens, content: 'x' }),
        );
        const similar = pairs.flatMap(([from, to]) => {
          const [left, right] = [all[from], all[to]];
          return left && right && left !== right ? [{ id: left.id, other: right.id, content: 'x' }] : [];
        });
        const { kept, summarized, merged, evicted } = plan(all, similar);
        const done = [...kept, ...summarized, ...merged].map(({ id }) => id).concat(evicted);
        assert.deepEqual(done.toSorted(), all.map(({ id }) => id).toSorted());
        const stay = new Set([...kept, ...summarized].map(({ id }) => id));
        assert.ok(merged.every(({ into }) => stay.has(into)));
      }),
    );
  });
});

describe('a text', () => {
  it('stays within its budget when it is shortened, and keeps whole sentences', () => {
    const text = 'The project ships in May. Hello. The project needs a reviewer. Bye.';
    assert.equal(shorten(text, 14), 'The project ships in May. The project needs a reviewer.');
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.integer({ min: 1, max: 50 }), (any, most) => {
        const short = shorten(any, most);
        return short.length <= most * 4 && short.isWellFormed();
      }),
    );
    assert.ok(shorten(`a${'😀'.repeat(99)}`, 1).isWellFormed());
  });
});

describe('junk', () => {
  const known = { systemPrompt: 'You help people to find the best ferry to all of the islands.', recalled: [] };
  it('is refused by the first rule that fits, and facts are not', () => {
    const cases: [string, string | undefined][] = [
      ['Likes tea', 'too_short'],
      ['My API key is sk-live-abcdefghijklmnop1234', 'secret'],
      ['The card is 4111 1111 1111 1111', 'secret'],
      ['help people to find the best ferry to all', 'system_prompt'],
      ['people to find the best ferry to all', 'system_prompt'],
      ['to find the best ferry to all', undefined],
      ['Likes green tea', undefined],
      ['喜欢茶', 'too_short'],
      ['用户住在奥斯陆的公园附近。', undefined],
      ['彼女は東京に住んでいます。', undefined],
      ['Ada likes green tea.', undefined],
      ['The password policy was changed in May.', undefined],
      ['She was born on 1990-05-01 in Oslo.', undefined],
      ['Her phone number is 555 0199.', undefined],
    ];
    for (const [content, rule] of cases) assert.equal(junkRuleOf(content, known), rule, content);
  });
});
