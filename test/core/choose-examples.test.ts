import assert from 'node:assert/strict';
import fc from 'fast-check';
import { chooseExamples } from '../../core/choose-examples.ts';

const EXAMPLES = [
  'Question: What is profitable to manufacture in Jita?\n1. get_market_stats',
  'Question: Where are battles happening?\n1. get_war_summary',
  'Question: Create a shopping list for building ten Caracals\n1. create_shopping_list',
  'Question: What skills do I need for drones?\n1. get_skills_for_item',
];

describe('chooseExamples', () => {
  it('takes those whose words the question has, rare words first, in their own order', () => {
    assert.deepEqual(chooseExamples(EXAMPLES, 'Make me a shopping list, please', 1), [EXAMPLES[2]]);
    assert.deepEqual(chooseExamples(EXAMPLES, 'Which drones and battles are in Jita?', 3), [
      EXAMPLES[0],
      EXAMPLES[1],
      EXAMPLES[3],
    ]);
  });

  it('takes the first ones where nothing fits, and all where there are few', () => {
    assert.deepEqual(chooseExamples(EXAMPLES, 'xyz', 2), EXAMPLES.slice(0, 2));
    assert.deepEqual(chooseExamples(EXAMPLES, '', 2), EXAMPLES.slice(0, 2));
    assert.deepEqual(chooseExamples(EXAMPLES, 'drones', 4), EXAMPLES);
  });

  it('takes so many, each once, whatever is asked', () => {
    const property = fc.property(fc.array(fc.string()), fc.string(), fc.nat(5), (examples, question, most) => {
      const chosen = chooseExamples(examples, question, most);
      assert.equal(chosen.length, Math.min(most, examples.length));
      let place = -1;
      for (const each of chosen) {
        place = examples.indexOf(each, place + 1);
        assert.ok(place >= 0, 'in their own order');
      }
    });
    fc.assert(property);
  });
});
