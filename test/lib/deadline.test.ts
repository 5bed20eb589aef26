import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { getEventListeners } from 'node:events';
import { promisify } from 'node:util';
import { startDeadline, whileItGetsOn, withDeadline } from '../../lib/deadline.ts';
import { busyFor } from '../support/busy-for.ts';

const MESSAGE = 'too late';

describe('withDeadline', () => {
  it('gives what has come in time, and refuses what has not', async () => {
    assert.equal(await withDeadline(Promise.resolve(7), 1000, MESSAGE), 7);
    await assert.rejects(withDeadline(new Promise(() => undefined), 1, MESSAGE), { message: MESSAGE });
    await assert.rejects(withDeadline(Promise.reject(new Error('broken')), 1000, MESSAGE), { message: 'broken' });
  });

  it('takes no answer for late that came while the process was busy', async () => {
    const answer = withDeadline(promisify(randomBytes)(16), 20, MESSAGE);
    busyFor(200);
    assert.equal((await answer).length, 16);
  });

  it('gives who answers its time where both have stood still meanwhile', async () => {
    let settle: (value: string) => void = () => undefined;
    const promise = new Promise<string>((resolve) => {
      settle = resolve;
    });
    const answer = withDeadline(promise, 400, MESSAGE);
    busyFor(450);
    // As a server does that goes on at the same moment.
    setTimeout(settle, 60, 'there');
    assert.equal(await answer, 'there');
  });
});

describe('startDeadline', () => {
  it('is followed by as many as work at a time without a warning, and leaves nothing on the signal', async () => {
    const warnings: string[] = [];
    const onWarning = ({ message }: Error) => warnings.push(message);
    process.on('warning', onWarning);
    const { signal } = new AbortController();
    const deadlines = Array.from({ length: 20 }, () => startDeadline(60_000, signal));
    for (const deadline of deadlines) deadline.clear();
    // A warning is emitted in a later tick.
    await promisify(setImmediate)();
    process.off('warning', onWarning);
    assert.deepEqual(warnings, []);
    assert.equal(getEventListeners(signal, 'abort').length, 0);
  });
});

describe('whileItGetsOn', () => {
  const { signal: parent } = new AbortController();

  it('lets work go on for as long as it gets on, however long that takes', async () => {
    let steps = 0;
    const work = async () => {
      while (steps < 20) {
        await new Promise((resolve) => setTimeout(resolve, 10));
        steps += 1;
      }
      return 'done';
    };
    assert.equal(await whileItGetsOn({ quietMs: 120, parent, progress: () => steps }, work), 'done');
  });

  it('ends what stands still, and tells it so', async () => {
    let given: AbortSignal | undefined;
    const work = (signal: AbortSignal) => {
      given = signal;
      return new Promise(() => undefined);
    };
    await assert.rejects(whileItGetsOn({ quietMs: 20, parent }, work), { name: 'TimeoutError' });
    assert.ok(given?.aborted);
    assert.equal(getEventListeners(parent, 'abort').length, 0);
  });

  it('ends with whoever owns it', async () => {
    const owner = new AbortController();
    const ending = whileItGetsOn({ quietMs: 60_000, parent: owner.signal }, () => new Promise(() => undefined));
    owner.abort(new Error('closed'));
    await assert.rejects(ending, { message: 'closed' });
  });
});
