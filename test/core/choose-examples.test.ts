import assert from 'node:assert/strict';
import fc from 'fast-check';
import { chooseExamples } from '../../core/choose-examples.ts';

const EXAMPLES = [
  'Question: What is profitable to manufacture in Jita?\n1. get_market_stats',
  'Question: Where are battles happening?\n1. get_war_summary',
  'Question: Create a shopping list for building ten Caracals\n1. create_shopping_list',
  'Question: What skills do I need for drones?\n1. get_skills_for_item',
];

const choose = (question: string, most: number, likeness?: number[]) =>
  chooseExamples(EXAMPLES, { question, most, likeness });

describe('chooseExamples', () => {
  it('takes those whose words the question has, rare words first, in their own order', () => {
    assert.deepEqual(choose('Make me a shopping list, please', 1), [2]);
    assert.deepEqual(choose('Which drones and battles are in Jita?', 3), [0, 1, 3]);
  });

  it('takes the first ones where nothing fits, and all where there are few', () => {
    assert.deepEqual(choose('xyz', 2), [0, 1]);
    assert.deepEqual(choose('', 2), [0, 1]);
    assert.deepEqual(choose('drones', 4), [0, 1, 2, 3]);
  });

  it('goes by meaning before words where both are known', () => {
    assert.deepEqual(choose('Where do people fight?', 1, [0.1, 0.6, 0, 0.1]), [1]);
    assert.deepEqual(choose('battles in drones', 1, [0, 0, 0.5, 0.05]), [2]);
    assert.deepEqual(choose('drones', 1, [0.4, 0.4, 0.4, 0.4]), [3], 'words decide where meaning does not');
    assert.deepEqual(choose('xyz', 2, [0.1, 0.2, 0.3, 0.1]), [1, 2]);
  });

  it('takes so many, each once, in their own order, whatever is asked', () => {
    const likeness = fc.option(fc.array(fc.double({ min: -1, max: 1, noNaN: true })), { nil: undefined });
    const property = fc.property(
      fc.record({ examples: fc.array(fc.string()), question: fc.string(), most: fc.nat(5), likeness }),
      ({ examples, ...asked }) => {
        const chosen = chooseExamples(examples, asked);
        assert.equal(new Set(chosen).size, Math.min(asked.most, examples.length));
        assert.deepEqual(
          chosen,
          chosen.toSorted((left, right) => left - right),
        );
        assert.ok(chosen.every((place) => place in examples));
      },
    );
    fc.assert(property);
  });
});
