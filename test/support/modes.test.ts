import assert from 'node:assert/strict';
import { chooseModes, describeModes } from './modes.ts';

const none = { databaseUrl: undefined, redisUrl: undefined };
const postgres = { databaseUrl: 'postgres://127.0.0.1/x', redisUrl: undefined };
const both = { ...postgres, redisUrl: 'redis://127.0.0.1' };

describe('the modes of the tests', () => {
  it('are those that the services allow, and the line names the others', () => {
    for (const [services, contract, left] of [
      [none, ['embedded'], / Left out: postgres and full /],
      [{ ...none, redisUrl: both.redisUrl }, ['embedded'], / Left out: postgres and full /],
      [postgres, ['embedded', 'postgres'], / Left out: full /],
    ] as const) {
      const modes = chooseModes(undefined, services);
      assert.deepEqual(modes.contract, contract);
      assert.match(describeModes(modes), left);
    }
    const all = chooseModes(undefined, both);
    assert.deepEqual(all.contract, ['embedded', 'postgres', 'full']);
    assert.doesNotMatch(describeModes(all), /Left out/);
  });

  it('are one for the domain: the fullest that is available', () => {
    assert.equal(chooseModes(undefined, none).domain, 'embedded');
    assert.equal(chooseModes(undefined, postgres).domain, 'postgres');
    assert.equal(chooseModes(undefined, both).domain, 'full');
  });

  it('are a single one for all suites where it is named', () => {
    for (const mode of ['embedded', 'postgres', 'full'] as const) {
      assert.deepEqual(chooseModes(mode, both), { contract: [mode], domain: mode, mustBeComplete: true });
    }
  });

  it('fail where they are named and a service is missing, and where the name is none', () => {
    assert.throws(() => chooseModes('full', postgres), /TEST_MODES=full needs TEST_REDIS_URL/);
    assert.throws(() => chooseModes('postgres', none), /needs TEST_DATABASE_URL/);
    assert.throws(() => chooseModes('ci', none), /needs TEST_DATABASE_URL/);
    assert.throws(() => chooseModes('ci', postgres), /needs TEST_REDIS_URL/);
    assert.throws(() => chooseModes('fast', both), /"fast": expected ci or/);
  });
});
