import assert from 'node:assert/strict';
import { isTimeLimit, repeatOnCpu, runOnCpu } from '../../tools/run-bounded.ts';
import { cpuMs } from '../support/cpu-time.ts';

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

describe('repeatOnCpu', () => {
  const answers = (works: readonly ('stands still' | 'takes its time' | 'ends')[]) => {
    const standing = new Int32Array(new SharedArrayBuffer(4));
    let runs = 0;
    const work = async (): Promise<string> => {
      const how = works[runs] ?? 'ends';
      runs += 1;
      if (how === 'stands still') Atomics.wait(standing, 0, 0, LIMIT_MS * 4);
      const sinceMs = cpuMs();
      if (how === 'takes its time') while (cpuMs() - sinceMs < LIMIT_MS);
      return how;
    };
    return repeatOnCpu(work, { timeoutMs: LIMIT_MS, isLate: (how) => how !== 'ends' });
  };

  it('lets work that bounds itself begin anew where it did not have the CPU, thrice at most, and no other', async () => {
    assert.equal(await answers(['stands still', 'ends']), 'ends');
    assert.equal(await answers(['takes its time', 'ends']), 'takes its time');
    assert.equal(await answers(['stands still', 'stands still', 'stands still', 'ends']), 'stands still');
  });
});
