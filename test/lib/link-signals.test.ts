import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { linkSignals } from '../../lib/link-signals.ts';

describe('linked signals', () => {
  it('fire with the first of their sources, and with its reason', () => {
    const [one, two] = [new AbortController(), new AbortController()];
    const { signal } = linkSignals(one.signal, two.signal);
    assert.equal(signal.aborted, false);
    two.abort('second');
    one.abort('first');
    assert.deepEqual([signal.aborted, signal.reason], [true, 'second']);
  });

  it('have fired where a source has', () => {
    const { signal } = linkSignals(new AbortController().signal, AbortSignal.abort('before'));
    assert.deepEqual([signal.aborted, signal.reason], [true, 'before']);
  });

  it('leave nothing on their sources once released, and fire no more', () => {
    const stop = new AbortController();
    const links = Array.from({ length: 20 }, () => linkSignals(stop.signal));
    assert.equal(getEventListeners(stop.signal, 'abort').length, 20);
    for (const { release } of links) release();
    assert.equal(getEventListeners(stop.signal, 'abort').length, 0);
    stop.abort();
    assert.ok(links.every(({ signal }) => !signal.aborted));
  });
});
