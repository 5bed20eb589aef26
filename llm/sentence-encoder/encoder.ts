/**
 * Universal Sentence Encoder, lite: two transformer layers over a text's first 128 pieces, then their mean. Weights and
 * steps are the package's; vectors have a cosine of at least 0.9999 with those of TensorFlow.js.
 */
import { attend, openScratch, type Scratch } from './attention.ts';
import { openMatrices, roundColumn, roundRow, type Floats, type Matrices, type Panels } from './matrices.ts';
import type { ModelFiles } from './model-files.ts';
import { createPieces } from './sentence-pieces.ts';

/** The most pieces read of a text, and the sizes of vectors per piece. */
const PIECES = 128;
const EMBEDDED = 256;
const WIDTH = 512;
const HIDDEN = 1536;
const MEMORY_BYTES = 16 * 1024 * 1024;

/** A matrix and its bias. */
interface Linear {
  panels: Panels;
  bias: Float32Array;
}

interface Norm {
  scale: Float32Array;
  bias: Float32Array;
}

interface Layer {
  norm: Norm;
  asks: Linear;
  answers: Linear;
  normBetween: Norm;
  widens: Linear;
  narrows: Linear;
}

/** Returns a function that gives a text's vector, of length 1. */
export function createEncoder(files: ModelFiles): (text: string) => Float32Array {
  const matrices = openMatrices(MEMORY_BYTES);
  const pieces = createPieces(files.vocabulary, PIECES);
  const linear = (terms: number, kernel: string, bias: string) => readLinear(matrices, files, { terms, kernel, bias });
  const layers = [readLayer(0, EMBEDDED, { files, linear }), readLayer(1, WIDTH, { files, linear })] as const;
  const enters = linear(EMBEDDED, 'Layer_0/TransformerLayer/dense/kernel', 'Layer_0/TransformerLayer/dense/bias');
  const ends = linear(WIDTH, 'tanh_layer_0/weights', 'tanh_layer_0/bias');
  const embed = readEmbeddings(files);
  const scratch = openScratch(matrices, { pieces: PIECES, width: WIDTH, widest: HIDDEN });
  const embedded = matrices.floats(PIECES, EMBEDDED);
  const state = matrices.floats(PIECES, WIDTH);
  const mean = matrices.floats(PIECES, WIDTH);
  const run = { matrices, scratch };

  return (text) => {
    const ids = pieces(text);
    const count = ids.length;
    embed(ids, embedded);
    roundRows(run, count, embedded);
    apply(run, enters, { count, to: state });
    attendTo(run, layers[0], { count, from: embedded, state });
    roundRows(run, count, scratch.wide);
    apply(run, layers[0].narrows, { count, to: state, isAdded: true });
    attendTo(run, layers[1], { count, from: state, state });
    // From here on only the mean of the pieces counts, and a product of the mean is the mean of the products.
    roundRow({ ...scratch.left, terms: HIDDEN }, 0, meanOf(scratch.wide, count));
    mean.values.set(meanOf(state, count));
    apply(run, layers[1].narrows, { count: 1, to: mean, isAdded: true });
    roundRows(run, 1, mean);
    apply(run, ends, { count: 1, to: mean });
    return normalized(mean.values.slice(0, WIDTH).map(Math.tanh));
  };
}

interface Run {
  matrices: Matrices;
  scratch: Scratch;
}

/** Adds attention to the state, then computes the first half of the feed-forward step, which is left in `wide`. */
function attendTo(
  run: Run,
  layer: Layer,
  { count, from, state }: { count: number; from: Floats; state: Floats },
): void {
  const { wide, attended } = run.scratch;
  normRows(run, layer.norm, { count, from });
  apply(run, layer.asks, { count, to: { ...wide, columns: 3 * from.columns } });
  attend(run.matrices, run.scratch, { count, size: from.columns });
  roundRows(run, count, { ...attended, columns: from.columns });
  apply(run, layer.answers, { count, to: state, isAdded: true });
  normRows(run, layer.normBetween, { count, from: state });
  apply(run, layer.widens, { count, to: wide });
  for (let at = 0; at < count * HIDDEN; at++) wide.values[at] = Math.max(0, wide.values[at] ?? 0);
}

/** Multiplies the rows rounded last; replaces the content of `to`, or adds to it. */
function apply(
  { matrices, scratch }: Run,
  { panels, bias }: Linear,
  { count, to, isAdded = false }: { count: number; to: Floats; isAdded?: boolean },
): void {
  const { values, columns } = to;
  for (let row = 0; row < count; row++) {
    const start = row * columns;
    if (!isAdded) values.set(bias, start);
    else for (let at = 0; at < columns; at++) values[start + at] = (values[start + at] ?? 0) + (bias[at] ?? 0);
  }
  const left = { ...scratch.left, terms: panels.terms };
  matrices.multiply(count, { left, right: panels }, { of: to, offset: 0 });
}

function roundRows({ scratch }: Run, count: number, { values, columns }: Floats): void {
  const left = { ...scratch.left, terms: columns };
  for (let row = 0; row < count; row++) roundRow(left, row, values.subarray(row * columns, (row + 1) * columns));
}

/** Normalizes rows to mean 0 and variance 1, scales, shifts and rounds them. */
function normRows({ scratch }: Run, norm: Norm, { count, from }: { count: number; from: Floats }): void {
  const { columns, values } = from;
  const left = { ...scratch.left, terms: columns };
  const { row: normed } = scratch;
  for (let row = 0; row < count; row++) {
    const start = row * columns;
    let sum = 0;
    for (let at = 0; at < columns; at++) sum += values[start + at] ?? 0;
    const mean = sum / columns;
    let squares = 0;
    for (let at = 0; at < columns; at++) squares += ((values[start + at] ?? 0) - mean) ** 2;
    const factor = 1 / Math.sqrt(squares / columns + 1e-6);
    for (let at = 0; at < columns; at++)
      normed[at] = ((values[start + at] ?? 0) - mean) * factor * (norm.scale[at] ?? 0) + (norm.bias[at] ?? 0);
    roundRow(left, row, normed);
  }
}

function meanOf({ values, columns }: Floats, count: number): Float32Array {
  const mean = new Float32Array(columns);
  for (let row = 0; row < count; row++)
    for (let at = 0; at < columns; at++) mean[at] = (mean[at] ?? 0) + (values[row * columns + at] ?? 0) / count;
  return mean;
}

function normalized(values: Float32Array): Float32Array {
  const length = Math.sqrt(values.reduce((sum, each) => sum + each * each, 0));
  return values.map((each) => each / Math.max(length, 1e-6));
}

/** Writes the pieces' embeddings, doubled, plus their positions. */
function readEmbeddings({ weights }: ModelFiles): (ids: readonly number[], to: Floats) => void {
  const table = weights('Embeddings_en').slice();
  const slownesses = weights('TimingSignal/ExpandDims_1').slice();
  const half = slownesses.length;
  return (ids, { values }) =>
    ids.forEach((id, at) => {
      for (let i = 0; i < EMBEDDED; i++) {
        const angle = at * (slownesses[i % half] ?? 0);
        values[at * EMBEDDED + i] =
          2 * (table[id * EMBEDDED + i] ?? 0) + (i < half ? Math.sin(angle) : Math.cos(angle));
      }
    });
}

type ReadLinear = (terms: number, kernel: string, bias: string) => Linear;

function readLayer(number: 0 | 1, size: number, { files, linear }: { files: ModelFiles; linear: ReadLinear }): Layer {
  const inside = (name: string) => `Layer_${number}/TransformerLayer/${name}`;
  const attention = (terms: number, name: string) =>
    linear(terms, inside(`MultiheadAttention/${name}/kernel`), inside(`MultiheadAttention/${name}/bias`));
  const own = (terms: number, name: string) =>
    linear(terms, inside(`FFN/${name}/Tensordot/Reshape_1`), inside(`FFN/${name}/bias`));
  const norm = (name: string): Norm => ({
    scale: files.weights(inside(`${name}/layer_norm_scale`)).slice(),
    bias: files.weights(inside(`${name}/layer_norm_bias`)).slice(),
  });
  return {
    norm: norm('layer_prepostprocess/layer_norm'),
    asks: attention(size, 'qkv_transform_single'),
    answers: attention(size, 'output_transform_single'),
    normBetween: norm('FFN/layer_prepostprocess/layer_norm'),
    widens: own(WIDTH, 'conv1'),
    narrows: own(HIDDEN, 'conv2'),
  };
}

function readLinear(
  matrices: Matrices,
  { weights }: ModelFiles,
  of: { terms: number; kernel: string; bias: string },
): Linear {
  const values = weights(of.kernel);
  const columns = values.length / of.terms;
  const panels = matrices.panels(of.terms, columns);
  for (let column = 0; column < columns; column++)
    roundColumn(panels, column, { values, start: column, stride: columns, count: of.terms });
  return { panels, bias: weights(of.bias).slice() };
}
