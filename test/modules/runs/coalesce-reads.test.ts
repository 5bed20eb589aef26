import assert from 'node:assert/strict';
import { coalesceReads } from '../../../modules/runs/streams/coalesce-reads.ts';
import { door } from '../../support/engine.ts';

describe('Shared reads', () => {
  it('are two for many who ask together, and nobody gets what was read before it asked', async () => {
    const share = coalesceReads<number>();
    const gate = door();
    let version = 1;
    let count = 0;
    const read = async () => {
      count += 1;
      const found = version;
      await gate.pass();
      return found;
    };
    const first = share('run', read);
    version = 2;
    const others = Array.from({ length: 50 }, () => share('run', read));
    const other = share('another run', read);
    gate.open();
    assert.equal(await first, 1);
    assert.deepEqual(new Set(await Promise.all(others)), new Set([2]));
    assert.equal(await other, 2);
    assert.equal(count, 3);
    assert.equal(await share('run', read), 2);
    assert.equal(count, 4);
  });

  it('fail for those who shared them, and not for those who come later', async () => {
    const share = coalesceReads<number>();
    let fails = true;
    const read = () => (fails ? Promise.reject(new Error('away')) : Promise.resolve(1));
    const shared = [share('run', read), share('run', read)];
    for (const each of await Promise.allSettled(shared)) assert.equal(each.status, 'rejected');
    fails = false;
    assert.equal(await share('run', read), 1);
  });
});
