import assert from 'node:assert/strict';
import fc from 'fast-check';
import { matchPattern } from '../../llm/match-text.ts';

describe('matchPattern', () => {
  it('captures what stands for each name, in its own case', () => {
    assert.deepEqual(matchPattern('Compare {a} with {b}!', 'compare  Japan with the USA'), {
      a: 'Japan',
      b: 'the USA',
    });
    assert.deepEqual(matchPattern('{who} won', 'Ada won.'), { who: 'Ada' });
  });

  it('refuses a text that lacks a literal or leaves a name empty', () => {
    assert.equal(matchPattern('Compare {a} with {b}', 'Compare Japan to USA'), null);
    assert.equal(matchPattern('Compare {a} with {b}', 'Compare with USA'), null);
    assert.equal(matchPattern('Compare it', 'Compare them'), null);
  });

  it('finds every value that was put into a pattern between words of its own', () => {
    const value = fc.stringMatching(/^[b-y]{1,12}$/);
    fc.assert(
      fc.property(value, value, (first, second) => {
        const captures = matchPattern('AZ {first} ZA {second} AAZZ?', `az ${first} za ${second} aazz`);
        assert.deepEqual(captures, { first, second });
      }),
    );
  });
});
