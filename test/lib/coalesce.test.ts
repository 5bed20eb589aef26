import assert from 'node:assert/strict';
import { coalesced } from '../../lib/coalesce.ts';
import { door } from '../support/engine.ts';

describe('coalesced work', () => {
  it('is done once more for all that was asked for while it was under way, key by key', async () => {
    const done: string[][] = [];
    const gate = door();
    const work = coalesced(async (asked: readonly string[]) => {
      done.push([...asked]);
      if (asked.includes('a1')) await gate.pass();
      return asked.length;
    });
    const first = work('a', 'a1');
    await gate.reached;
    const others = [work('a', 'a2'), work('b', 'b1'), work('a', 'a3')];
    assert.equal(await others[1], 1, 'another key waits for nobody');
    gate.open();
    assert.deepEqual(await Promise.all([first, ...others]), [1, 2, 1, 2]);
    assert.deepEqual(done, [['a1'], ['b1'], ['a2', 'a3']]);
    assert.equal(await work('a', 'a4'), 1);
  });

  it('that fails fails for those who have asked for it, and holds up no other', async () => {
    const work = coalesced((asked: readonly number[]) =>
      asked.includes(0) ? Promise.reject(new Error('broken')) : Promise.resolve(asked.length),
    );
    const failing = work('a', 0);
    await Promise.resolve().then(() => undefined);
    const next = work('a', 1);
    await assert.rejects(failing, /broken/);
    assert.equal(await next, 1);
  });

  it('as a read is two for many who ask together, and nobody gets what was read before it asked', async () => {
    const gate = door();
    let version = 1;
    let count = 0;
    const share = coalesced(async () => {
      count += 1;
      const found = version;
      await gate.pass();
      return found;
    });
    const first = share('run', undefined);
    await gate.reached;
    version = 2;
    const others = Array.from({ length: 50 }, () => share('run', undefined));
    const other = share('another run', undefined);
    gate.open();
    assert.equal(await first, 1);
    assert.deepEqual(new Set(await Promise.all(others)), new Set([2]));
    assert.equal(await other, 2);
    assert.equal(count, 3);
    assert.equal(await share('run', undefined), 2);
    assert.equal(count, 4);
  });

  it('fails for those who shared it, and not for those who come later', async () => {
    let fails = true;
    const share = coalesced(() => (fails ? Promise.reject(new Error('away')) : Promise.resolve(1)));
    const shared = [share('run', undefined), share('run', undefined)];
    for (const each of await Promise.allSettled(shared)) assert.equal(each.status, 'rejected');
    fails = false;
    assert.equal(await share('run', undefined), 1);
  });
});
