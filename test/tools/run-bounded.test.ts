import assert from 'node:assert/strict';
import { isTimeLimit, runOnCpu } from '../../tools/run-bounded.ts';

const LIMIT_MS = 50;

describe('runOnCpu', () => {
  it('runs work again that was stopped before it had its time, as on a busy machine', () => {
    let runs = 0;
    const standing = new Int32Array(new SharedArrayBuffer(4));
    const work = () => {
      runs += 1;
      if (runs === 1) Atomics.wait(standing, 0, 0, LIMIT_MS * 4);
      return runs;
    };
    assert.equal(runOnCpu(work, LIMIT_MS), 2);
  });

  it('stops work that takes its time, and after a few runs any other', () => {
    let runs = 0;
    const endless = () => {
      runs += 1;
      for (;;);
    };
    assert.throws(() => runOnCpu(endless, LIMIT_MS), isTimeLimit);
    assert.ok(runs <= 3, `${runs} runs`);
    runs = 0;
    const throwing = () => {
      runs += 1;
      throw new Error('no');
    };
    assert.throws(() => runOnCpu(throwing, LIMIT_MS), /no/);
    assert.equal(runs, 1);
  });
});
