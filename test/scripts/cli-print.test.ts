import assert from 'node:assert/strict';
import { difference, plain } from '../../scripts/cli/print.ts';

describe('what the command line prints', () => {
  it('has no character of a model that acts on the terminal or hides text', () => {
    assert.equal(plain('a\u001b[2Jb\u202ec\u200bd\ne\tf'), 'a\\u001b[2Jb\\u202ec\\u200bd\ne\tf');
    assert.equal(plain('bob\u{e0061}\u{e006c}ce\u3164\u2800\u180e'), 'bob\\u{e0061}\\u{e006c}ce\\u3164\\u2800\\u180e');
    assert.equal(plain('Grüße 🌍 日本'), 'Grüße 🌍 日本');
  });
  it('names each place that differs', () => {
    const before = { a: 1, b: { c: [1], d: 'x' } };
    assert.deepEqual(difference(before, { a: 1, b: { c: [2], d: 'x' }, e: null }), [
      '- b.c: [1]',
      '+ b.c: [2]',
      '+ e: null',
    ]);
    assert.deepEqual(difference(before, before), []);
  });
});
