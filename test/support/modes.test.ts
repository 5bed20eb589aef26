import assert from 'node:assert/strict';
import { describeModes, modesOf } from './modes.ts';

const database = 'postgres://127.0.0.1/x';
const redis = 'redis://127.0.0.1';

describe('the modes of the tests', () => {
  it('are embedded alone where no service is given, and the line names both variables', () => {
    const modes = modesOf(undefined, undefined);
    assert.deepEqual(modes, ['embedded']);
    assert.match(describeModes(modes), /Left out: postgres and full mode.*TEST_DATABASE_URL and TEST_REDIS_URL/);
  });

  it('leave out full mode where there is no Redis', () => {
    const modes = modesOf(database, undefined);
    assert.deepEqual(modes, ['embedded', 'postgres']);
    assert.match(describeModes(modes), /Left out: full mode, for want of TEST_REDIS_URL /);
  });

  it('do not count a Redis without a Postgres', () => {
    assert.deepEqual(modesOf(undefined, redis), ['embedded']);
  });

  it('are all three where both are given, and nothing is left out', () => {
    const modes = modesOf(database, redis);
    assert.deepEqual(modes, ['embedded', 'postgres', 'full']);
    assert.doesNotMatch(describeModes(modes), /Left out/);
  });
});
