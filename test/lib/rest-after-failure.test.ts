import assert from 'node:assert/strict';
import { restAfterFailure } from '../../lib/rest-after-failure.ts';

const fails = () => Promise.reject(new Error('away'));

describe('What rests after a failure', () => {
  it('answers, tells of a failure, and is then left alone until its rest is ended', async () => {
    const errors: unknown[] = [];
    const rest = restAfterFailure((error) => errors.push(error), Infinity);
    assert.equal(await rest.attempt(async () => 'said'), 'said');
    assert.equal(await rest.attempt(fails), undefined);
    assert.equal(await rest.attempt(() => assert.fail('it is left alone')), undefined);
    assert.equal(errors.length, 1);
    rest.end();
    assert.equal(await rest.attempt(async () => 'again'), 'again');
  });

  it('is asked again when the time is over', async () => {
    const rest = restAfterFailure(() => undefined, 0);
    assert.equal(await rest.attempt(fails), undefined);
    assert.equal(await rest.attempt(async () => 'again'), 'again');
  });
});
