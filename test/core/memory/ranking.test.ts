import assert from 'node:assert/strict';
import fc from 'fast-check';
import { readMetadata } from '../../../core/memory/entry.ts';
import { readSaid } from '../../../core/memory/said.ts';
import { readPassage } from '../../../core/memory/passage.ts';
import type { Candidate } from '../../../core/memory/candidate.ts';
import { searchedText } from '../../../core/memory/question.ts';
import { rank } from '../../../core/memory/ranking.ts';
import { RECALL_WEIGHTS } from '../../../core/memory/weights.ts';

const AT = new Date('2026-03-18T12:00:00Z');
const DAY_MS = 86_400_000;

function candidate(id: string, over: Partial<Candidate> = {}): Candidate {
  return {
    id,
    content: `content of ${id}`,
    memory_type: 'EPISODIC',
    thread_id: null,
    importance: 0.5,
    metadata: {},
    created_at: AT,
    valid_from: null,
    lexical: 0,
    passage: 0,
    words: new Map(),
    cosine: undefined,
    neighbours: [],
    ...over,
  };
}

const order = (text: string, candidates: Candidate[]) =>
  rank({ text, at: AT }, candidates).map(({ entry }) => entry.id);

describe('the ranking of memories', () => {
  const signal = fc.double({ min: 0, max: 1, noNaN: true });

  it('puts words that fit before a meaning that is near', () => {
    const words = candidate('words', { lexical: 0.8, cosine: 0.3 });
    const meaning = candidate('meaning', { lexical: 0.1, cosine: 0.9 });
    assert.deepEqual(order('which city', [meaning, words]), ['words', 'meaning']);
  });

  it('finds by meaning alone what shares no word', () => {
    assert.deepEqual(order('beverages', [candidate('coffee', { cosine: 0.5 }), candidate('other')]), ['coffee']);
  });

  it('holds it against no entry that its vector is still to come', () => {
    const early = candidate('early', { lexical: 0.3, cosine: 0.3 });
    const late = candidate('late', { lexical: 0.5 });
    assert.deepEqual(order('which city', [early, late]), ['late', 'early']);
    const near = candidate('near', { lexical: 0.5, cosine: 0.6 });
    const unlike = candidate('unlike', { lexical: 0.5, cosine: 0.1 });
    assert.deepEqual(order('which city', [late, unlike, near]), ['near', 'late', 'unlike']);
    assert.deepEqual(order('which city', [near, candidate('other')]), ['near'], 'nor is it found for that');
  });

  it('puts the newer of two that fit equally first', () => {
    const old = candidate('old', { lexical: 0.7, created_at: new Date(AT.getTime() - 10 * DAY_MS) });
    const young = candidate('young', { lexical: 0.7, created_at: new Date(AT.getTime() - DAY_MS) });
    assert.deepEqual(order('what is my budget', [old, young]), ['young', 'old']);
  });

  it('prefers what was said at the time that the question names', () => {
    const then = { metadata: { occurred_at: '2026-03-10T09:00:00Z' }, lexical: 0.5 };
    const now = { metadata: { occurred_at: '2026-03-18T09:00:00Z' }, lexical: 0.6 };
    const both = [candidate('now', now), candidate('then', then)];
    assert.deepEqual(order('what did we discuss last week', both), ['then', 'now']);
    assert.deepEqual(order('what did we discuss', both), ['now', 'then']);
  });

  it('prefers the words of the one who is asked about', () => {
    const both = ['Ada', 'Bob'].map((speaker) => candidate(speaker, { lexical: 0.4, metadata: { speaker } }));
    assert.deepEqual(order('What does Bob like?', both), ['Bob', 'Ada']);
  });

  it('reads who says a text, when, and where, as clients from elsewhere write it', () => {
    const both = ['Ada', 'Bob'].map((name) => candidate(name, { lexical: 0.4, content: `${name}: I like plums.` }));
    assert.deepEqual(order('What does Bob like?', both), ['Bob', 'Ada']);
    assert.deepEqual(order('What are Ada’s favourites?', both), ['Ada', 'Bob']);
    const said = [
      candidate('answer', { lexical: 0.4, content: 'Assistant: Plums, then.' }),
      candidate('wish', { lexical: 0.4, content: 'User: Always offer plums.' }),
    ];
    assert.deepEqual(order('Which fruit?', said), ['wish', 'answer']);
    assert.equal(readSaid('Note to self: http://x', {}).text, 'http://x');
    assert.equal(readSaid('Ada: hello', { role: 'assistant', speaker: 'Eve' }).speaker, 'Eve');
    for (const source of ['agent', 'AI', 'Assistant']) assert.equal(readSaid('Plums.', { source }).role, 'assistant');
    assert.equal(readSaid('Plums.', { role: 'Human' }).role, 'user');
    const answered = { lexical: 0.4, metadata: { source: 'agent' } };
    const wished = { lexical: 0.4, metadata: { source: 'user' }, content: 'Always offer plums.' };
    const two = [candidate('answer', { ...answered, content: 'Never mind plums.' }), candidate('wish', wished)];
    assert.deepEqual(order('Which fruit?', two), ['wish', 'answer']);
    for (const [metadata, at] of [
      [{ occurred_at: '2026-03-10T09:00:00Z', timestamp: 'x' }, '2026-03-10T09:00:00.000Z'],
      [{ timestamp: 1_773_133_200 }, '2026-03-10T09:00:00.000Z'],
      [{ date: 1_773_133_200_000 }, '2026-03-10T09:00:00.000Z'],
      [{ time: '2026-03-10' }, '2026-03-10T00:00:00.000Z'],
      [{ timestamp: 1_773_133_200_000_000 }, '2026-03-10T09:00:00.000Z'],
      [{ timestamp: -86_400 }, '1969-12-31T00:00:00.000Z'],
      [{ time: 'noon', created_at: true }, undefined],
      // What RFC 3339 cannot write is no time: an event could not say it.
      [{ date: '275760-09-13' }, undefined],
      [{ occurred_at: '10000-01-01', time: '2026-03-10' }, '2026-03-10T00:00:00.000Z'],
      [{ time: '-000001-01-01', timestamp: 1e300 }, undefined],
    ] as const)
      assert.equal(readMetadata(metadata).occurredAt?.toISOString(), at);
    assert.deepEqual([readMetadata({ session_id: 7 }).conversation, readMetadata({}).conversation], ['7', undefined]);
  });

  it('prefers an entry that has the words of the question in one sentence', () => {
    const words = new Map([['deploy', 2], ['deadlin', 1], ['studi', 1]]); // prettier-ignore
    assert.equal(readPassage('We deployed it. The deadline is near.', words).share, 0.5);
    assert.equal(readPassage('The deadline of the deployment study is near.', words).share, 1);
    assert.equal(readPassage('Redeploy. ```deploy```', words).share, 0);
    assert.equal(readPassage('', new Map()).share, 0);
    const both = [candidate('far', { lexical: 0.5 }), candidate('near', { lexical: 0.5, passage: 0.8 })];
    assert.deepEqual(order('When is the deadline?', both), ['near', 'far']);
  });

  it('lifts what stands beside a good hit in the same conversation', () => {
    const found = [
      candidate('question', { thread_id: 't', lexical: 0.9, neighbours: [{ id: 'answer', steps: 1 }] }),
      candidate('answer', { thread_id: 't', lexical: 0.1, neighbours: [{ id: 'question', steps: 1 }] }),
      candidate('elsewhere', { thread_id: 'u', lexical: 0.15 }),
    ];
    assert.deepEqual(order('how long does it take', found), ['question', 'answer', 'elsewhere']);
  });

  it('lifts what many good hits stand around more than what one stands beside', () => {
    const good = ['a', 'b', 'c'].map((id) => candidate(id, { thread_id: 't', lexical: 0.9 }));
    const between = good.map(({ id }, at) => ({ id, steps: at + 1 }));
    const found = [
      ...good,
      candidate('between', { thread_id: 't', lexical: 0.1, neighbours: between }),
      candidate('beside', { thread_id: 't', lexical: 0.1, neighbours: between.slice(0, 1) }),
    ];
    assert.deepEqual(order('how long does it take', found).slice(-2), ['between', 'beside']);
  });

  it('weighs how to answer less where a question asks for what was said', () => {
    const found = [
      candidate('instruction', { content: 'Always name the tools.', lexical: 0.2, metadata: { role: 'user' } }),
      candidate('statement', { content: 'The tools are in the shed.', lexical: 0.9, metadata: { role: 'user' } }),
    ];
    assert.deepEqual(order('How do I sharpen the tools?', found), ['instruction', 'statement']);
    assert.deepEqual(order('Where did I say that the tools are?', found), ['statement', 'instruction']);
  });

  it('looks for what a question is about, not for the words that it is asked with', () => {
    const looked = (question: string) => searchedText(question).replaceAll(/\s+/g, ' ');
    assert.equal(looked('What profession did I mention I work in?'), 'What profession did I work in?');
    assert.equal(looked('Can you help me plan a trip?'), 'Can me plan a trip?');
    assert.equal(looked('What did you recommend?'), 'What did you recommend?', 'hardly a word would be left');
    assert.equal(looked('Who helped Ada?'), 'Who helped Ada?');
  });

  describe('of hits that say different things of one subject', () => {
    const day = (n: number) => new Date(AT.getTime() - n * DAY_MS);
    const words = new Map([['deadlin', 2]]);
    const old = { content: 'The deadline is in May.', lexical: 0.9, words, created_at: day(9) };
    const young = { content: 'The deadline was moved, sadly.', lexical: 0.8, words, created_at: day(2) };
    const both = (over: Partial<Candidate> = {}) => [candidate('old', old), candidate('young', { ...young, ...over })];

    it('puts the newer one first where it tells of a change, and says so', () => {
      const [first, second] = rank({ text: 'When is the deadline?', at: AT }, both());
      assert.deepEqual([first?.entry.id, second?.entry.id, first?.score], ['young', 'old', second?.score]);
      const sum = Object.values(first?.why ?? {}).reduce((total, part) => total + part, 0);
      assert.ok((first?.why.change ?? 0) > 0 && Math.abs(sum - (first?.score ?? 0)) < 0.001);
    });

    it('takes less of the words for a change of a value that is asked for, where it is nearly as good', () => {
      const asked = new Map([
        ['deadlin', 3],
        ['first', 3],
        ['draft', 3],
        ['novel', 2],
      ]);
      const pair = (over: Partial<Candidate> = {}) => [
        candidate('old', { ...old, content: 'The deadline of the first draft of my novel is in May.', words: asked }),
        candidate('young', { ...young, words: new Map([['deadlin', 3]]), ...over }),
      ];
      assert.deepEqual(order('When is the deadline?', pair()), ['young', 'old']);
      assert.deepEqual(order('Tell me of the deadline.', pair()), ['old', 'young']);
      assert.deepEqual(order('When is the deadline?', pair({ lexical: 0.5 })), ['old', 'young']);
      assert.deepEqual(order('When is the deadline?', pair({ words: new Map([['novel', 2]]) })), ['old', 'young']);
    });

    it('leaves them where the older one is asked for, or the newer is of something else', () => {
      assert.deepEqual(order('When was the deadline originally?', both()), ['old', 'young']);
      for (const over of [
        { words: new Map([['shop', 2]]) },
        { lexical: 0.1 },
        { created_at: day(20) },
        { content: 'The deadline holds.' },
        { metadata: { role: 'assistant' } },
      ])
        assert.deepEqual(order('When is the deadline?', both(over)), ['old', 'young'], JSON.stringify(over));
    });

    it('puts one that counts the same otherwise before an older one, where a value is asked for', () => {
      const counted = (content: string) => [
        candidate('old', { ...old, content: 'The draft of my novel has 300 pages by today. I like it.' }),
        candidate('young', { ...young, content }),
      ];
      const more = counted('Some 420 pages of the draft are written.');
      assert.deepEqual(order('How many pages does the draft have?', more), ['young', 'old']);
      assert.deepEqual(order('Tell me of the draft.', more), ['old', 'young']);
      for (const other of [
        'The draft has 300 pages, they tell me.',
        'The draft has 12 chapters.',
        'Grandmother bought a notebook with 420 pages.',
        'The printer at work takes 420 pages of a novel at once.',
      ])
        assert.deepEqual(order('How many pages does the draft have?', counted(other)), ['old', 'young'], other);
    });

    it('puts one that denies what an older one says before it, where it is asked whether it is so', () => {
      const expo = new Map([
        ['kyle', 2],
        ['expo', 2],
        ['sneaker', 1],
      ]);
      const met = 'I met Kyle at the sneaker expo in May, but I have never tried running shoes. Which ones are good?';
      const denied = 'I have never met Kyle or seen a sneaker expo, so who could show me around?';
      const said = ([before, after]: [string, string], over: Partial<Candidate> = {}) => [
        candidate('old', { ...old, content: before, words: expo }),
        candidate('young', { ...young, content: after, words: expo, ...over }),
      ];
      const question = 'Have I met Kyle at a sneaker expo?';
      assert.deepEqual(order(question, said([met, denied])), ['young', 'old']);
      assert.deepEqual(order('Where did I meet Kyle?', said([met, denied])), ['old', 'young']);
      const [first] = rank({ text: question, at: AT }, said([met, denied]));
      assert.ok((first?.why.change ?? 0) > 0);
      for (const [texts, over] of [
        [[met, 'I met Kyle at the sneaker expo, and never in his shop.'], {}],
        [[denied, 'I still have not met Kyle, nor been to any sneaker expo.'], {}],
        [[denied, met], {}],
        [[met, denied], { words: new Map([['kyle', 2]]) }],
        [[met, denied], { lexical: 0.1 }],
        [[met, denied], { created_at: day(20) }],
        [[met, denied], { metadata: { role: 'assistant' } }],
      ] as [[string, string], Partial<Candidate>][])
        assert.deepEqual(order(question, said(texts, over)), ['old', 'young'], JSON.stringify([texts, over]));
    });

    it('puts one that contradicts an older one before it, however much better that one fits', () => {
      const found = [
        candidate('old', { ...old, content: 'The deadline is on May 3.' }),
        candidate('young', { ...young, content: 'The deadline is on May 9.', lexical: 0.2, words: new Map() }),
      ];
      assert.deepEqual(order('When is the deadline?', found), ['young', 'old']);
    });

    const texts = [
      'The price is 4 now.',
      'The price is 5.',
      'The price is 6.',
      'The price was raised.',
      'The price is not 4.',
      'It rains.',
    ];
    for (const question of ['What is the price?', 'Is the price 4?'])
      it(`keeps every hit, once, with falling scores: ${question}`, () => {
        const hits = fc.array(fc.record({ text: fc.constantFrom(...texts), lexical: signal, age: fc.nat(40) }), {
          maxLength: 15,
        });
        fc.assert(
          fc.property(hits, (list) => {
            const of = list.map(({ text: content, lexical, age }, at) =>
              candidate(`c${at}`, {
                content,
                lexical: 0.01 + lexical,
                created_at: day(age),
                words: new Map([['price', 1]]),
              }),
            );
            const ranked = rank({ text: question, at: AT }, of);
            assert.deepEqual(ranked.map(({ entry }) => entry.id).toSorted(), of.map(({ id }) => id).toSorted());
            const scores = ranked.map(({ score }) => score);
            assert.deepEqual(
              scores,
              scores.toSorted((a, b) => b - a),
            );
          }),
        );
      });
  });

  it('says of each hit what has found it, and the parts make the score', () => {
    const [hit] = rank({ text: 'coffee', at: AT }, [candidate('a', { lexical: 0.9, cosine: 0.4 })]);
    assert.deepEqual(Object.keys(hit?.why ?? {}).slice(0, 2), ['lexical', 'vector']);
    const sum = Object.values(hit?.why ?? {}).reduce((total, part) => total + part, 0);
    assert.ok(Math.abs(sum - (hit?.score ?? 0)) < 0.001);
  });

  it('leaves out what is only new or important', () => {
    assert.deepEqual(order('coffee', [candidate('a', { importance: 1 })]), []);
  });

  const candidates = fc
    .array(
      fc.record({
        lexical: signal,
        cosine: fc.option(signal, { nil: undefined }),
        importance: signal,
        thread_id: fc.constantFrom(null, 's', 't'),
        age: fc.nat(1000),
      }),
      { maxLength: 30 },
    )
    .map((list) =>
      list.map(({ age, ...over }, index) =>
        candidate(`c${index}`, { ...over, created_at: new Date(AT.getTime() - age * DAY_MS) }),
      ),
    );

  it('gives scores from 0 to 1 in falling order, whatever the candidates', () => {
    fc.assert(
      fc.property(candidates, (list) => {
        const scores = rank({ text: 'What did Ada say last week?', at: AT }, list).map(({ score }) => score);
        assert.ok(scores.every((score) => score >= 0 && score <= 1));
        assert.deepEqual(
          scores,
          scores.toSorted((a, b) => b - a),
        );
      }),
    );
  });

  it('does not depend on the order of the candidates', () => {
    fc.assert(
      fc.property(candidates, (list) => {
        const ids = (of: Candidate[]) => rank({ text: 'x', at: AT }, of).map(({ entry }) => entry.id);
        assert.deepEqual(ids(list.toReversed()), ids(list));
      }),
    );
  });

  it('never ranks an entry lower for fitting better', () => {
    fc.assert(
      fc.property(candidates, signal, (list, more) => {
        const [first, ...others] = list;
        if (!first) return;
        const place = (of: Candidate) => order('x', [of, ...others]).indexOf(of.id);
        const before = place({ ...first, lexical: 0.01 + first.lexical * 0.5 });
        assert.ok(place({ ...first, lexical: Math.min(1, 0.02 + first.lexical * 0.5 + more) }) <= before);
      }),
    );
  });

  it('keeps the vector weaker than the words', () => assert.ok(RECALL_WEIGHTS.vector < RECALL_WEIGHTS.lexical));
});
