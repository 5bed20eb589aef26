/** Multi-head attention: for each head, each piece becomes the mean of all, weighted by how well they match. */
import {
  padded,
  roundColumn,
  roundRow,
  roundSoftmax,
  type Floats,
  type Matrices,
  type Panels,
  type Rounded,
} from './matrices.ts';

const HEADS = 4;

/** Buffers that are reused for each text. */
export interface Scratch {
  /** Queries, keys and values of each piece side by side; later the hidden layer. */
  wide: Floats;
  attended: Floats;
  scores: Floats;
  left: Rounded;
  right: Panels;
  row: Float32Array;
}

export function openScratch(
  matrices: Matrices,
  { pieces, width, widest }: { pieces: number; width: number; widest: number },
): Scratch {
  return {
    wide: matrices.floats(pieces, widest),
    attended: matrices.floats(pieces, width),
    scores: matrices.floats(pieces, pieces),
    left: matrices.rounded(pieces, widest),
    right: matrices.panels(pieces, pieces),
    row: new Float32Array(widest),
  };
}

/** Reads `wide` and writes `attended`, in which each piece has `size` numbers. */
export function attend(matrices: Matrices, scratch: Scratch, { count, size }: { count: number; size: number }): void {
  const { wide, attended, scores } = scratch;
  const terms = size / HEADS;
  const others = padded(count);
  attended.values.fill(0, 0, count * size);
  for (let head = 0; head < HEADS; head++) {
    const place = (piece: number, part: number) => piece * 3 * size + part * size + head * terms;
    const asked = { ...scratch.left, terms };
    const keys = { ...scratch.right, terms, columns: others };
    for (let piece = 0; piece < count; piece++)
      roundRow(asked, piece, wide.values.subarray(place(piece, 0), place(piece, 0) + terms));
    for (let piece = 0; piece < others; piece++)
      roundColumn(keys, piece, {
        values: wide.values,
        start: place(piece, 1),
        stride: 1,
        count: piece < count ? terms : 0,
      });
    scores.values.fill(0, 0, count * others);
    matrices.multiply(count, { left: asked, right: keys }, { of: { ...scores, columns: others }, offset: 0 });

    const shares = { ...scratch.left, terms: others };
    const answers = { ...scratch.right, terms: others, columns: terms };
    for (let piece = 0; piece < count; piece++)
      roundSoftmax(shares, piece, { values: scores.values, start: piece * others, count, by: 1 / Math.sqrt(terms) });
    for (let column = 0; column < terms; column++)
      roundColumn(answers, column, { values: wide.values, start: place(0, 2) + column, stride: 3 * size, count });
    const to = { of: { ...attended, columns: size }, offset: head * terms };
    matrices.multiply(count, { left: shares, right: answers }, to);
  }
}
