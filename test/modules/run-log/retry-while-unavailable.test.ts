import assert from 'node:assert/strict';
import { retryWhileUnavailable } from '../../../modules/run-log/retry-while-unavailable.ts';

const away = () => Object.assign(new Error('no'), { code: 'ECONNREFUSED' });

describe('What is repeated while the database is away', () => {
  const { now } = Date;
  afterEach(() => {
    Date.now = now;
  });

  it('is repeated for that long by no clock that somebody sets', async () => {
    let attempts = 0;
    const work = async () => {
      attempts += 1;
      // As NTP does on a machine that was suspended.
      if (attempts === 1) Date.now = () => now() + 11 * 60_000;
      if (attempts < 4) throw away();
      return 'kept';
    };
    const signal = new AbortController().signal;
    assert.equal(await retryWhileUnavailable(work, { forMs: 600_000, signal }), 'kept');
  });

  it('is repeated also where the database has undone it for a reason that passes', async () => {
    const codes = ['40P01', '40001', '55P03', '57014'];
    const work = async () => {
      const code = codes.shift();
      if (code) throw Object.assign(new Error('no'), { code });
      return 'done';
    };
    const signal = new AbortController().signal;
    assert.equal(await retryWhileUnavailable(work, { forMs: 600_000, signal }), 'done');
  });

  it('is tried once more after the signal, and then its error is thrown; any other error at once', async () => {
    let attempts = 0;
    const work = (error: Error) => async () => {
      attempts += 1;
      throw error;
    };
    await assert.rejects(retryWhileUnavailable(work(away()), { forMs: 600_000, signal: AbortSignal.abort() }), /no/);
    assert.equal(attempts, 1);
    const signal = new AbortController().signal;
    await assert.rejects(retryWhileUnavailable(work(new Error('wrong')), { forMs: 600_000, signal }), /wrong/);
    assert.equal(attempts, 2);
  });
});
