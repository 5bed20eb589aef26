import assert from 'node:assert/strict';
import fc from 'fast-check';
import { commitLanes } from '../../../modules/platform/commit-lanes.ts';

/** Each lane and each late commit may keep a connection. */
const mostConnections = (poolSize: number) => {
  const { lanes, mostLate } = commitLanes('postgres', poolSize);
  return lanes + mostLate;
};

describe('Commits of a process', () => {
  it('leave two connections of a pool to others, whatever waits for a lock', () => {
    fc.assert(
      fc.property(fc.integer({ min: 4, max: 200 }), (poolSize) => {
        assert.ok(poolSize - mostConnections(poolSize) >= 2);
      }),
    );
    assert.deepEqual([4, 5, 6, 7, 8, 10, 50].map(mostConnections), [2, 3, 4, 5, 6, 6, 6]);
  });

  it('go round no late one where the pool has nothing to spare, or is the one connection of PGlite', () => {
    for (const poolSize of [1, 2, 3, 4]) assert.equal(commitLanes('postgres', poolSize).mostLate, 0);
    for (const poolSize of [1, 10, 50]) assert.equal(commitLanes('pglite', poolSize).mostLate, 0);
  });
});
