import assert from 'node:assert/strict';
import fc from 'fast-check';
import { compilePattern } from '../../tools/linear-pattern.ts';
import { cpuMs } from '../support/cpu-time.ts';

describe('compilePattern', () => {
  const classes = [
    '[a-c]',
    '[^a\\s]',
    '[\\s-]',
    '[[a]',
    '.',
    String.raw`\d`,
    String.raw`\w`,
    String.raw`\s`,
    String.raw`\D`,
  ];
  const escapes = [
    String.raw`\u0061`,
    String.raw`\u{1F600}`,
    String.raw`\x62`,
    String.raw`\b`,
    String.raw`\S`,
    String.raw`\.`,
  ];
  const atom = fc.oneof(
    fc.constantFrom('a', 'b', '/', '(?=a)'),
    fc.constantFrom(...classes),
    fc.constantFrom(...escapes),
  );
  const quantified = fc
    .tuple(atom, fc.constantFrom('', '', '*', '+', '?', '{1,2}', '+?'))
    .map((parts) => parts.join(''));
  const pattern = fc
    .array(
      fc.oneof(
        quantified,
        fc.array(quantified, { maxLength: 3 }).map((inner) => `(${inner.join('|')})*`),
      ),
      { maxLength: 4 },
    )
    .chain((parts) => fc.constantFrom(parts.join(''), `^${parts.join('')}$`));
  const text = fc.string({
    unit: fc.constantFrom('a', 'b', 'c', '1', ' ', '\n', '\r', '\u00a0', '\u2028', '-', '.', '/', '[', '😀', 'ä'),
  });

  it('means what JavaScript means', () => {
    let compared = 0;
    fc.assert(
      fc.property(pattern, text, (source, subject) => {
        let native: RegExp;
        try {
          native = new RegExp(source, 'u');
        } catch {
          assert.throws(() => compilePattern(source), SyntaxError);
          return;
        }
        compared += 1;
        assert.equal(
          compilePattern(source).test(subject),
          native.test(subject),
          `${source} on ${JSON.stringify(subject)}`,
        );
      }),
      { numRuns: 3000 },
    );
    assert.ok(compared > 1000);
  });

  it('matches what makes JavaScript backtrack for years in no time', () => {
    const bombs = ['^(a+)+$', '^(a|a)*$', '^(a|aa)+$', '^([a-z]+)*\\d$', '(.*a){20}$', '^(\\w+\\s?)*$', '(x+x+)+y'];
    const startedMs = cpuMs();
    for (const bomb of bombs) assert.equal(compilePattern(bomb).test(`${'a'.repeat(5000)}!`), false, bomb);
    assert.ok(cpuMs() - startedMs < 5000);
  });
});
