import assert from 'node:assert/strict';
import { preferredWaitMs } from '../../api/kit/prefer.ts';

describe('Prefer', () => {
  const seconds = (prefer: string) => preferredWaitMs(prefer) / 1000;

  it('says how long an answer is waited for, up to ten minutes, quoted or not', () => {
    assert.deepEqual(['wait=5', 'wait="5"', 'Wait = 5', 'foo; wait="5"'].map(seconds), [5, 5, 5, 5]);
    assert.deepEqual(
      ['wait=61', 'wait="599"', 'wait=600', 'wait=601', 'wait=999999'].map(seconds),
      [61, 599, 600, 600, 600],
    );
  });

  it('lets an answer be waited for a minute where it says nothing of it, and not at all with respond-async alone', () => {
    assert.deepEqual(['', 'return=minimal', 'wait=soon', 'await=5'].map(seconds), [60, 60, 60, 60]);
    assert.deepEqual(['respond-async', 'Respond-Async, wait="7"', 'wait=0'].map(seconds), [0, 7, 0]);
  });
});
