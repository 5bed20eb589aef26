import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import { unrunFiles } from './named-suites.ts';

describe('Suites that were asked for by name', () => {
  const test = (file: string, state?: 'passed' | 'pending') => ({ file: resolve(file), state });
  const root = {
    tests: [],
    suites: [{ tests: [test('test/a.test.ts', 'passed'), test('test/b.test.ts', 'pending')], suites: [] }],
  };

  it('have failed where no test of theirs has run', () => {
    assert.deepEqual(unrunFiles(['test/a.test.ts'], root), []);
    assert.deepEqual(unrunFiles(['test/a.test.ts', 'test/b.test.ts', './test/c.test.ts'], root), [
      'test/b.test.ts',
      './test/c.test.ts',
    ]);
  });

  it('are not those that a pattern finds, of which some may be left out', () => {
    assert.deepEqual(unrunFiles(['test/**/*.test.ts'], root), []);
  });

  it('may be picked by the titles of their tests, of which one must have run', () => {
    assert.deepEqual(unrunFiles(['test/b.test.ts', '-g', 'on Postgres'], root), []);
    assert.deepEqual(unrunFiles(['test/b.test.ts', '--grep=on Postgres'], { tests: [], suites: [] }), [
      'test/b.test.ts',
    ]);
  });
});
