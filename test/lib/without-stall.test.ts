import assert from 'node:assert/strict';
import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { withoutStall } from '../../lib/without-stall.ts';

describe('A content that is read without a stall', () => {
  const parent = new AbortController().signal;
  const limits = { quietMs: 40, parent };

  it('fails where its source brings nothing more, and gives the source up', async () => {
    const source = new PassThrough();
    source.write('half');
    await assert.rejects(text(withoutStall(source, limits)), /could not read: TimeoutError/);
    assert.ok(source.destroyed);
  });

  it('fails as its source does, and ends with its parent', async () => {
    const source = new PassThrough();
    const failing = text(withoutStall(source, { quietMs: 60_000, parent }));
    source.destroy(Object.assign(new Error('reset'), { code: 'ECONNRESET' }));
    await assert.rejects(failing, /could not read: Error ECONNRESET/);
    const closing = new AbortController();
    const closed = text(withoutStall(new PassThrough(), { quietMs: 60_000, parent: closing.signal }));
    closing.abort(new DOMException('the store is closed', 'AbortError'));
    await assert.rejects(closed, /could not read: AbortError/);
  });

  it('comes as a whole to a reader that takes nothing for longer than a stall may last', async () => {
    const whole = 'x'.repeat(1024 * 1024);
    const source = new PassThrough();
    source.end(whole);
    const slow = withoutStall(source, limits);
    slow.once('readable', () => undefined);
    await once(slow, 'readable');
    for (let stalls = 0; stalls < 3; stalls += 1)
      await assert.rejects(text(withoutStall(new PassThrough(), limits)), /could not read: TimeoutError/);
    assert.equal((await text(slow)).length, whole.length);
  });

  it('lets its source go at once when its reader does', async () => {
    const source = new PassThrough();
    const read = withoutStall(source, { quietMs: 60_000, parent });
    read.resume();
    read.destroy();
    await once(source, 'close');
  });
});
