import assert from 'node:assert/strict';
import fc from 'fast-check';
import { renderMemories } from '../../../core/memory/prompt.ts';
import type { Candidate, Ranked } from '../../../core/memory/candidate.ts';
import { putCurrentFirst, validityOf, type ValidTimes } from '../../../core/memory/validity.ts';

const AT = new Date('2026-03-18T12:00:00Z');
const day = (text: string | null) => (text === null ? null : new Date(text));
const times = (from: string | null, to: string | null): ValidTimes => ({ valid_from: day(from), valid_to: day(to) });

function hit(id: string, score: number, valid = times(null, null)): Ranked<Candidate & ValidTimes> {
  const entry = { id, content: id, memory_type: 'SEMANTIC' as const, thread_id: null, importance: 0.5, metadata: {} };
  const signals = { created_at: AT, lexical: 0.5, passage: 0, words: new Map(), cosine: undefined, neighbours: [] };
  return { entry: { ...entry, ...signals, ...valid }, score, why: { lexical: score } };
}
const ENDED = times('2020-01-01', '2026-01-01');

describe('Whether a memory holds', () => {
  it('follows from its times, of which the end is past', () => {
    const of = (from: string | null, to: string | null) => validityOf(times(from, to), AT);
    assert.deepEqual([of(null, null), of('2026-03-01', '2026-04-01')], ['current', 'current']);
    assert.deepEqual([of(null, '2026-03-01'), of(null, AT.toISOString())], ['ended', 'ended']);
    assert.deepEqual([of('2026-04-01', null), of(AT.toISOString(), null)], ['not_yet', 'current']);
  });

  it('puts what holds before what does not and is worth no more, and says what that has cost', () => {
    const order = (text: string, ...hits: Ranked<Candidate & ValidTimes>[]) => putCurrentFirst({ text, at: AT }, hits);
    const placed = order('Where?', hit('old', 0.5, ENDED), hit('new', 0.5), hit('other', 0.3));
    assert.deepEqual(
      placed.map(({ entry, score, why }) => [entry.id, score, why.validity]),
      [
        ['new', 0.5, undefined],
        ['old', 0.45, -0.05],
        ['other', 0.3, undefined],
      ],
    );
    const [best] = order('Where?', hit('old', 0.9, ENDED), hit('new', 0.5));
    assert.equal(best?.entry.id, 'old', 'what fits far better stays first');
    const then = order('Where in March 2025?', hit('old', 0.5, ENDED), hit('new', 0.5, times('2026-01-01', null)));
    assert.deepEqual(
      then.map(({ entry, why }) => [entry.id, why.validity]),
      [
        ['old', undefined],
        ['new', undefined],
      ],
      'what held at the time that is asked about is as good',
    );
  });

  it('changes nothing among those that hold, nor among those that do not, and loses none', () => {
    const anyHit = fc.record({ score: fc.integer({ min: 1, max: 100 }), ended: fc.boolean() });
    fc.assert(
      fc.property(fc.array(anyHit), (hits) => {
        const ranked = hits
          .toSorted((a, b) => b.score - a.score)
          .map(({ score, ended }, n) => hit(`${n}`, score / 100, ended ? ENDED : undefined));
        const placed = putCurrentFirst({ text: 'Where?', at: AT }, ranked);
        const ids = (all: readonly { entry: Candidate & ValidTimes }[], ended: boolean) =>
          all.filter(({ entry }) => (entry.valid_to !== null) === ended).map(({ entry }) => entry.id);
        for (const ended of [true, false]) assert.deepEqual(ids(placed, ended), ids(ranked, ended));
        const scores = placed.map(({ score }) => score);
        assert.deepEqual(
          scores,
          scores.toSorted((a, b) => b - a),
        );
        for (const { score, why } of placed)
          assert.ok(Math.abs(Object.values(why).reduce((sum, part) => sum + part, 0) - score) < 1e-9);
      }),
    );
  });

  it('is what the model reads', () => {
    const entry = {
      id: 'x',
      version: 1,
      score: 1,
      memory_type: 'SEMANTIC' as const,
      origin: 'user' as const,
      status: 'active' as const,
      trusted: true,
      profile: false,
      at: AT.toISOString(),
      content: 'Ada lives in Oslo.',
    };
    const at = '2026-01-01T00:00:00.000Z';
    const rendered = (state: 'ended' | 'not_yet') => renderMemories([{ ...entry, validity: { state, at } }]) ?? '';
    assert.match(rendered('ended'), /at="2026-03-18" no_longer_valid_since="2026-01-01">Ada/);
    assert.match(rendered('not_yet'), /not_valid_before="2026-01-01">Ada/);
    assert.doesNotMatch(renderMemories([entry]) ?? '', /valid/);
  });
});
