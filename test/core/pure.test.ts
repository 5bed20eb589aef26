import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';

/** What would bring a clock, chance, a timer or something to remember into the core. */
const IMPURE: Record<string, RegExp> = {
  'the clock': /\bDate\.now\b|\bnew Date\(\s*\)|\bperformance\.|\bprocess\./,
  chance: /\bMath\.random\b|\brandom(Bytes|UUID|Int|FillSync)?\(|\bcrypto\./,
  'a timer': /\bset(Timeout|Interval|Immediate)\b|\bqueueMicrotask\b|\bAbortSignal\.timeout\b/,
  // Of what a module keeps, only sets and maps that are filled where they are made, and are never written to.
  'what a module remembers':
    /^(export )?(let|var) |^(export )?const \w+(: (?!Readonly)[^=]*)? = new (Weak)?(Map|Set)\b[^(]*\(\)/m,
};

const findImpure = (code: string) => Object.keys(IMPURE).filter((what) => IMPURE[what]?.test(withoutComments(code)));

describe('The core', () => {
  for (const file of readdirSync('core', { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.ts'),
  )) {
    it(`knows no clock, chance, timer or cache: ${file}`, () => {
      assert.deepEqual(findImpure(readFileSync(`core/${file}`, 'utf8')), []);
    });
  }

  it('would be noticed to', () => {
    for (const [code, what] of [
      ['const now = Date.now();', 'the clock'],
      ['const now = new Date();', 'the clock'],
      ['const took = performance.now();', 'the clock'],
      ['const dice = Math.random();', 'chance'],
      ['const id = randomUUID();', 'chance'],
      ['  setTimeout(done, 1);', 'a timer'],
      ['const known = new Map<string, number>();', 'what a module remembers'],
      ['const rendered: WeakMap<object, number> = new WeakMap();', 'what a module remembers'],
      ['let count = 0;', 'what a module remembers'],
    ] as const) {
      assert.deepEqual(findImpure(code), [what], code);
    }
    for (const code of [
      '// Date.now()',
      'const at = new Date(row.at);',
      "const KINDS = new Set(['a']);",
      '  const seen = new Set();',
    ]) {
      assert.deepEqual(findImpure(code), [], code);
    }
  });
});

function withoutComments(code: string): string {
  return code.replaceAll(/\/\*[\s\S]*?\*\//g, '').replaceAll(/^\s*\/\/.*$/gm, '');
}
