import assert from 'node:assert/strict';
import fc from 'fast-check';
import { isSameFact } from '../../../core/memory/same-fact.ts';

describe('Two texts', () => {
  it('state one fact if they say the same words, whatever stands between them', () => {
    const same: [string, string][] = [
      ['The budget is 500 euros.', 'the budget is 500 euros'],
      ['The user likes green tea a lot.', 'The user really likes green tea.'],
      ['My daughter is allergic to hazelnuts and peanuts.', 'My daughter is allergic to peanuts and hazelnuts'],
      ['He is allergic to peanuts and to hazelnuts', 'He is allergic to hazelnuts and peanuts'],
      ['Allergic to hazelnuts, eggs and peanuts', 'Allergic to peanuts, hazelnuts, and to eggs.'],
      ['She doesn’t eat fish.', "She doesn't eat fish"],
      ['Cafe\u0301 Roma opens at 9:30.', 'Caf\u00e9 Roma opens at 9:30'],
      ['用户住在奥斯陆。', '用户住在奥斯陆'],
    ];
    for (const [left, right] of same) assert.ok(isSameFact(left, right), `${left} / ${right}`);
  });

  it('state two facts if a word, a number, a name, a sign or a denial differs, or the order of the words', () => {
    const other: [string, string][] = [
      ['The left headlight of the car is broken.', 'The right headlight of the car is broken.'],
      ['The pills are to be taken in the morning.', 'The pills are to be taken in the evening.'],
      ['The customer is on the small plan.', 'The customer is on the large plan.'],
      ['The parcel is missing.', 'The parcel is found.'],
      ['The alarm goes on at night.', 'The alarm goes off at night.'],
      ['I like tea.', 'I like water.'],
      ['The budget is 500 euros.', 'The budget is 600 euros.'],
      ['The budget is €500.', 'The budget is $500.'],
      ['It is 5 °C there.', 'It is -5 °C there.'],
      ['I write C++ at work.', 'I write C# at work.'],
      ['My address is the office.', 'My address was the office.'],
      ['My dog is called Rex.', 'My dogs are called Rex.'],
      ['She lives in Oslo.', 'She lives in Bergen.'],
      ['They met in May.', 'They met in may.'],
      ['She likes fish.', "She doesn't like fish."],
      ['The train goes from Oslo to Bergen.', 'The train goes from Bergen to Oslo.'],
      ['I drink green tea and coffee.', 'I drink green coffee and tea.'],
      ['Ada hired Bob.', 'Bob hired Ada.'],
      ['मुझे दाल पसंद है', 'मुझे दिल पसंद है'],
      ['用户住在奥斯陆。', '用户住在卑尔根。'],
    ];
    for (const [left, right] of other) assert.ok(!isSameFact(left, right), `${left} / ${right}`);
  });

  const WORDS = [
    'left',
    'right',
    'lamp',
    'door',
    'opens',
    'before',
    'after',
    'noon',
    'plan',
    'no',
    'to',
    '7',
    'Rome',
    'a',
  ];
  const sentence = fc.array(fc.constantFrom(...WORDS, 'and', 'or', 'the', 'really', ','), {
    minLength: 1,
    maxLength: 9,
  });

  it('state one fact or two in whichever order they come, and a text the same as itself', () => {
    fc.assert(
      fc.property(sentence, sentence, (a, b) => {
        const [left, right] = [a.join(' '), b.join(' ')];
        assert.equal(isSameFact(left, right), isSameFact(right, left));
        assert.ok(isSameFact(left, left));
      }),
    );
    fc.assert(fc.property(fc.string({ unit: 'grapheme' }), (any) => assert.ok(isSameFact(any, any))));
  });

  it('state two facts wherever one word is swapped for another', () => {
    const swap = fc.tuple(sentence, fc.nat(8), fc.constantFrom('upper', 'lower', 'not', 'in', 'morning', '2'));
    fc.assert(
      fc.property(swap, ([words, at, word]) => {
        const place = at % words.length;
        const isSpoken = WORDS.includes(words[place] ?? '') && words[place] !== 'a';
        fc.pre(isSpoken);
        assert.ok(!isSameFact(words.join(' '), words.with(place, word).join(' ')));
      }),
    );
  });
});
