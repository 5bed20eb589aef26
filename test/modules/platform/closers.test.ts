import assert from 'node:assert/strict';
import { createClosers } from '../../../modules/platform/closers.ts';

function recorded() {
  const closed: string[] = [];
  const told: string[] = [];
  const closers = createClosers((error, name) => told.push(`${name}: ${(error as Error).message}`));
  const failing = async () => {
    throw new Error('no');
  };
  const add = (name: string) => closers.add(name, async () => closed.push(name));
  return { closers, closed, told, add, failing };
}

describe('closers', () => {
  it('close what was opened last first, each once', async () => {
    const { closers, closed, add } = recorded();
    ['a', 'b', 'c'].forEach(add);
    await closers.close();
    await closers.close();
    assert.deepEqual(closed, ['c', 'b', 'a']);
  });

  it('go on after one that fails, and tell of it', async () => {
    const { closers, closed, told, add, failing } = recorded();
    add('first');
    closers.add('broken', failing);
    add('last');
    await closers.close();
    assert.deepEqual([closed, told], [['last', 'first'], ['broken: no']]);
  });

  it('go on after one that does not end in time', async () => {
    const closed: string[] = [];
    const told: string[] = [];
    const closers = createClosers((error, name) => told.push(`${name}: ${(error as Error).message}`), 20);
    closers.add('first', async () => closed.push('first'));
    closers.add('silent', () => new Promise(() => undefined), { graceMs: 10 });
    await closers.close();
    assert.deepEqual([closed, told], [['first'], ['silent: not closed within 30 ms']]);
  });

  it('have one time together, of which what comes when it is over has a moment', async () => {
    const closed: string[] = [];
    const told: string[] = [];
    const closers = createClosers((_error, name) => told.push(name), 20);
    closers.add('quick', async () => closed.push('quick'));
    for (const name of ['c', 'b', 'a']) closers.add(name, () => new Promise(() => undefined), { graceMs: 2000 });
    const sinceMs = performance.now();
    await closers.close();
    const tookMs = performance.now() - sinceMs;
    assert.deepEqual([closed, told], [['quick'], ['a', 'b', 'c']]);
    assert.ok(tookMs >= 2000 && tookMs < 4000, `${tookMs} ms`);
  });

  it('fail at the end, all others closed, where something was lost', async () => {
    const { closers, closed, told, add, failing } = recorded();
    add('first');
    closers.add('data', failing, { holdsData: true });
    await assert.rejects(closers.close(), { errors: [new Error('no')] });
    assert.deepEqual([closed, told], [['first'], ['data: no']]);
  });
});
