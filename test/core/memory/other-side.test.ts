import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { Candidate } from '../../../core/memory/candidate.ts';
import { rank } from '../../../core/memory/ranking.ts';

const AT = new Date('2026-03-18T12:00:00Z');
const WORDS = new Map([['yoga', 2], ['class', 2]]); // prettier-ignore

function candidate(id: string, over: Partial<Candidate> = {}): Candidate {
  return {
    id,
    content: 'I like the yoga class.',
    memory_type: 'EPISODIC',
    thread_id: null,
    importance: 0.5,
    metadata: { role: 'user' },
    created_at: AT,
    valid_from: null,
    lexical: 0,
    passage: 0,
    words: WORDS,
    cosine: undefined,
    neighbours: [],
    ...over,
  };
}

const ask = (text: string, candidates: readonly Candidate[]) => rank({ text, at: AT }, candidates);
const ids = (text: string, candidates: readonly Candidate[]) => ask(text, candidates).map(({ entry }) => entry.id);

describe('The ten best memories', () => {
  const best = (content: string) => candidate('best', { content, lexical: 1 });
  /** So many that fit less than the best, and better than what is asked for. */
  const others = (content: string, count = 12) =>
    Array.from({ length: count }, (_, at) => candidate(`other ${at}`, { content, lexical: 0.8 - at / 100 }));
  const place = (text: string, candidates: readonly Candidate[]) => ids(text, candidates).indexOf('side');

  it('have what denies the best of them, or what that denies, where it is asked whether it is so', () => {
    const question = 'Have I ever been to a yoga class?';
    const never = 'I have never been to a yoga class.';
    const side = (over: Partial<Candidate> = {}) =>
      candidate('side', { lexical: 0.1, created_at: new Date(0), ...over });
    assert.equal(place(question, [best(never), ...others(never), side()]), 9);
    const denial = (over: Partial<Candidate> = {}) => side({ content: never, ...over });
    const affirmed = [best('I was at the yoga class.'), ...others('A yoga class.')];
    assert.equal(place(question, [...affirmed, denial()]), 9);
    const later = new Date(AT.getTime() + 1000);
    assert.equal(place(question, [...affirmed, denial({ created_at: later })]), 0, 'what is newer comes first');
    const hits = ask(question, [best(never), ...others(never), side()]);
    const [ninth, found] = hits.slice(8, 10);
    const sum = Object.values(found?.why ?? {}).reduce((total, part) => total + part, 0);
    assert.ok((found?.why.other_side ?? 0) > 0 && Math.abs(sum - (found?.score ?? 0)) < 0.001);
    assert.ok((ninth?.score ?? 0) >= (found?.score ?? 1));
    for (const over of [{ metadata: { role: 'assistant' } }, { words: new Map() }, { content: never }])
      assert.equal(place(question, [best(never), ...others(never), side(over)]), 13, JSON.stringify(over));
  });

  it('have another number than the best of them, where it is asked for something else', () => {
    const question = 'How long is the yoga class?';
    const found = [best('The yoga class takes 45 minutes.'), ...others('A yoga class is good.')];
    const side = (content: string, at = new Date(0)) => [
      ...found,
      candidate('side', { content, lexical: 0.1, created_at: at }),
    ];
    assert.equal(place(question, side('My yoga class takes 60 minutes, I think.')), 9);
    assert.equal(place(question, side('My yoga class takes 45 minutes, I think.')), 13);
    assert.equal(place('How was the yoga class yesterday?', side('It took 60 minutes.')), 13, 'a time is named');
    const later = new Date(AT.getTime() + 1000);
    assert.equal(place(question, side('The yoga class takes 60 minutes.', later)), 0, 'what is newer comes first');
  });

  it('have one less of a place where others are as good elsewhere', () => {
    const near = (id: string) => [{ id, steps: 1 }];
    const [one, beside, elsewhere] = [
      candidate('one', { thread_id: 'a', lexical: 0.9, neighbours: near('beside') }),
      candidate('beside', { thread_id: 'a', lexical: 0.8, neighbours: near('one') }),
      candidate('elsewhere', { thread_id: 'a', lexical: 0.8, neighbours: near('far') }),
    ];
    // It is as good, and its neighbour as well.
    const far = candidate('far', { thread_id: 'a', lexical: 0.9, neighbours: near('elsewhere') });
    assert.deepEqual(ids('yoga', [one, beside, elsewhere, far]).slice(0, 2).toSorted(), ['far', 'one']);
    const hits = ask('yoga', [one, beside]);
    assert.deepEqual(
      hits.map(({ entry, why }) => [entry.id, (why.beside ?? 0) < 0]),
      [
        ['one', false],
        ['beside', true],
      ],
    );
  });

  it('lose nothing, and have falling scores', () => {
    const texts = ['I have never been there.', 'It takes 45 minutes.', 'It takes 60 minutes.', 'A class.'];
    const hit = fc.record({ text: fc.constantFrom(...texts), lexical: fc.double({ min: 0.01, max: 1, noNaN: true }), beside: fc.nat(20) }); // prettier-ignore
    const question = fc.constantFrom('Have I ever been there?', 'How long does it take?');
    fc.assert(
      fc.property(question, fc.array(hit, { maxLength: 25 }), (text, list) => {
        const of = list.map(({ text: content, lexical, beside }, at) =>
          candidate(`c${at}`, { content, lexical, neighbours: [1, 2].map((steps) => ({ id: `c${beside}`, steps })) }),
        );
        const hits = ask(text, of);
        assert.deepEqual(hits.map(({ entry }) => entry.id).toSorted(), of.map(({ id }) => id).toSorted());
        const scores = hits.map(({ score }) => score);
        assert.deepEqual(
          scores,
          scores.toSorted((a, b) => b - a),
        );
      }),
    );
  });
});
