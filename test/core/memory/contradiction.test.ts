import assert from 'node:assert/strict';
import fc from 'fast-check';
import { contradicts } from '../../../core/memory/contradiction.ts';
import { retainedUntil } from '../../../core/memory/retention.ts';

describe('A contradiction by rules', () => {
  const pairs: [string, string][] = [
    ['The launch is in May.', 'The launch is in June.'],
    ['The office is open on Fridays.', 'The office is not open on Fridays.'],
    ['I have never written Flask routes.', 'I have written Flask routes.'],
    ['Competitor X has 30% market share', 'Competitor X has 45% market share'],
    ['Ada lives in Oslo.', 'Ada lives in Bergen.'],
    ['The meeting starts at 10:00.', 'The meeting starts at 11:30.'],
    ['The deadline is March 15.', 'The deadline is April 2.'],
    ['Answer in at most 3 sentences.', 'Please answer in at most 5 sentences.'],
    ['Always include tests.', 'Never include tests.'],
    ['Show at most 3 images.', 'Show at most 5 images.'],
    ['Keep walks under 5 km.', 'Keep walks under 5 miles.'],
    ['Keep walks under 5 km.', 'Keep walks under 6.2 miles.'],
    ['My commute is 5 km.', 'My commute is 8 miles.'],
    ['The meeting lasts 90 minutes.', 'The meeting lasts 2 hours.'],
    ['The timeout is 1,000 ms.', 'The timeout is 1,001 ms.'],
    ['We run on version 1.1 of it.', 'We run on version 1.10 of it.'],
    ['We meet on the 3rd of May.', 'We meet on the 5th of May.'],
    ['The flight leaves from gate number 14.', 'The flight leaves from gate number 22.'],
    ['The price is 30 euros.', 'The price is 30 dollars.'],
    ['项目红隼的预算是4000欧元。', '项目红隼的预算是5500欧元。'],
    ['会議は3時に始まります。', '会議は5時に始まります。'],
  ];
  const others: [string, string][] = [
    ['项目1的预算是4000欧元。', '项目2的预算是4000欧元。'],
    ['请审阅第3章的草稿。', '请审阅第4章的草稿。'],
    ['回答最多3句话。', '回答最多100字。'],
    ['Ada lives in Oslo.', 'Bob lives in Oslo.'],
    ['I like green tea.', 'I like black coffee.'],
    ['The launch is in May.', 'The office is closed on Fridays.'],
    ['The launch is in May.', 'The launch in May is for the whole team and its guests.'],
    ['Ada has a dog.', 'Ada has a cat.'],
    ['The budget of May is 30 thousand.', 'The budget of June is 45 thousand.'],
    ['The fact of lesson-1 is known.', 'The fact of lesson-2 is known.'],
    ['The code of the gate is 1234.', 'The code of the gate is 1234 now.'],
    ['Answer in at most 3 sentences.', 'Review at most 20 files.'],
    ['Please answer in at most 3 sentences.', 'Please review at most 20 files.'],
    ['Always give at most 3 examples.', 'Always write at most 20 words.'],
    ['When I ask about code, use 3 examples.', 'When I ask about history, use 5 examples.'],
    ['Use 3 examples in reviews.', 'Use 5 examples in essays.'],
    ['Show at least 3 images.', 'Show at most 5 images.'],
    ['Fact number 0 about ferry line 0.', 'Fact number 1 about ferry line 1.'],
    ['Task 3 needs a review.', 'Task 4 needs a review.'],
    ['Task #3 needs a review.', 'Task #4 needs a review.'],
    ['I finished the 1st draft.', 'I finished the 2nd draft.'],
    ['I finished lesson-1 today.', 'I finished lesson-2 today.'],
    ['Keep answers under 100 words.', 'Keep answers under 5 sentences.'],
    ['Keep walks under 5 km.', 'Keep walks under 3 miles.'],
    ['My commute is 5 km.', 'My commute is 3.1 miles.'],
    ['My commute is 5km long.', 'My commute is 5 kilometres long.'],
    ['The meeting lasts 120 minutes.', 'The meeting lasts 2 hours.'],
    ['Keep meetings at 30 minutes.', 'Keep meetings at half an hour, a 30-minute slot.'],
    ['The timeout is 1,000 ms.', 'The timeout is 1 second.'],
    ['The budget is 1,000 euros.', 'The budget is 1k euros.'],
  ];

  it('is another value of one thing, or its denial', () => {
    for (const [left, right] of pairs) assert.ok(contradicts(left, right), `${left} | ${right}`);
  });

  it('is not another thing, one more of many, or more of the same', () => {
    for (const [left, right] of others) assert.ok(!contradicts(left, right), `${left} | ${right}`);
  });

  it('is one both ways, and never with itself', () => {
    const word = fc.constantFrom(
      'the',
      'launch',
      'is',
      'not',
      'in',
      'May',
      'June',
      'Ada',
      '10',
      '30%',
      'lives',
      'likes',
      '5',
      '3',
      'km',
      'miles',
      'number',
    );
    const sentence = fc.array(word, { maxLength: 12 }).map((words) => words.join(' '));
    fc.assert(
      fc.property(sentence, sentence, (left, right) => {
        assert.equal(contradicts(left, right), contradicts(right, left));
        assert.equal(contradicts(left, left), false);
      }),
    );
  });
});

describe('A retention policy', () => {
  it('is a length of time from now, or a name', () => {
    const now = new Date('2026-01-01T00:00:00Z');
    const until = (policy: string | null) => retainedUntil(policy, now)?.toISOString().slice(0, 13);
    assert.deepEqual(['30d', '6 months', 'P1Y', 'PT12H', '2 weeks', 'forever', '0d', null].map(until), [
      '2026-01-31T00',
      '2026-06-30T00',
      '2027-01-01T00',
      '2026-01-01T12',
      '2026-01-15T00',
      undefined,
      undefined,
      undefined,
    ]);
  });
});
