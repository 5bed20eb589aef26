/**
 * Matrices in WebAssembly memory, and their products. Both factors are rounded to twelve bits and a scale: one per row
 * of the left, one per column of the right. Sums are integers and exact.
 */
import { compileMultiply, openMemory, PAIRS_TOGETHER, TILE_COLUMNS, TILE_ROWS } from './multiply-module.ts';

/** With this maximum, so many terms add up within 32 bits. */
const MOST = 2047;
const TERMS = 512;
/** Rounds a number of at most `MOST` by a truncating conversion to an integer. */
const UP = 32_768.5;
const DOWN = 32_768;
/** Smaller exponents of e round to 0. */
const NOTHING = -12;

/** Floats in consecutive rows. */
export interface Floats {
  address: number;
  values: Float32Array;
  columns: number;
}

/** The left factor, rounded. */
export interface Rounded {
  address: number;
  values: Int16Array;
  scales: Floats;
  /** Numbers per row. */
  terms: number;
}

/** The right factor, rounded, in panels of eight columns. */
export interface Panels {
  address: number;
  values: Int16Array;
  scales: Floats;
  terms: number;
  columns: number;
}

/** A part of each row, from `offset` on. */
interface Part {
  of: Floats;
  offset: number;
}

export interface Matrices {
  floats: (rows: number, columns: number) => Floats;
  rounded: (rows: number, terms: number) => Rounded;
  panels: (terms: number, columns: number) => Panels;
  /** Adds the product of the first `rows` rows to `to`. */
  multiply: (rows: number, factors: { left: Rounded; right: Panels }, to: Part) => void;
}

/** Allocates matrices in so many bytes together. */
export function openMatrices(bytes: number): Matrices {
  const memory = openMemory(bytes);
  const product = compileMultiply(memory);
  let used = 0;
  const take = (size: number) => {
    const address = used;
    used += 16 * Math.ceil(size / 16);
    return address;
  };
  const floats = (rows: number, columns: number): Floats => {
    const address = take(4 * rows * columns);
    return { address, values: new Float32Array(memory.buffer, address, rows * columns), columns };
  };
  const integers = (count: number) => {
    const address = take(2 * count);
    return { address, values: new Int16Array(memory.buffer, address, count) };
  };
  return {
    floats,
    rounded: (rows, terms) => ({ ...integers(rows * terms), scales: floats(1, rows), terms }),
    panels: (terms, columns) => ({ ...integers(terms * columns), scales: floats(1, columns), terms, columns }),
    multiply: (rows, { left, right }, { of, offset }) => {
      if (rows === 0) return;
      const tiles = roundUp(rows, TILE_ROWS);
      for (let term = 0; term < right.terms; term += TERMS) {
        product({
          a: left.address + 2 * term,
          b: right.address + 2 * TILE_COLUMNS * term,
          c: of.address + 4 * offset,
          scalesA: left.scales.address,
          scalesB: right.scales.address,
          rows: tiles,
          columns: right.columns,
          pairs: Math.min(TERMS, right.terms - term) / 2,
          strideA: 2 * left.terms,
          strideB: 2 * TILE_COLUMNS * right.terms,
          strideC: 4 * of.columns,
        });
      }
    },
  };
}

/** Rounds a number of terms or columns up to one that can be multiplied. */
export function padded(count: number): number {
  return roundUp(count, 2 * PAIRS_TOGETHER);
}

function roundUp(count: number, to: number): number {
  return to * Math.ceil(count / to);
}

/** Rounds a row of floats. */
export function roundRow(to: Rounded, row: number, values: Float32Array): void {
  let most = 0;
  for (let at = 0; at < to.terms; at++) {
    const size = Math.abs(values[at] ?? 0);
    if (size > most) most = size;
  }
  const factor = most === 0 ? 0 : MOST / most;
  const start = row * to.terms;
  for (let at = 0; at < to.terms; at++) to.values[start + at] = roundedBy(values[at] ?? 0, factor);
  to.scales.values[row] = most / MOST;
}

/** Rounds a column, whose numbers are `stride` apart in `from`; its other terms become 0. */
export function roundColumn(
  to: Panels,
  column: number,
  from: { values: Float32Array; start: number; stride: number; count: number },
): void {
  const { values, start, stride, count } = from;
  let most = 0;
  for (let term = 0; term < count; term++) {
    const size = Math.abs(values[start + term * stride] ?? 0);
    if (size > most) most = size;
  }
  const factor = most === 0 ? 0 : MOST / most;
  const first = (column - (column % TILE_COLUMNS)) * to.terms + 2 * (column % TILE_COLUMNS);
  for (let term = 0; term < to.terms; term++) {
    const value = term < count ? (values[start + term * stride] ?? 0) : 0;
    to.values[first + (term >> 1) * 2 * TILE_COLUMNS + (term & 1)] = roundedBy(value, factor);
  }
  to.scales.values[column] = most / MOST;
}

function roundedBy(value: number, factor: number): number {
  return ((value * factor + UP) | 0) - DOWN;
}

/** Rounds a row's softmax, e^(x · by) by the sum: weights that add up to 1. */
export function roundSoftmax(
  to: Rounded,
  row: number,
  from: { values: Float32Array; start: number; count: number; by: number },
): void {
  const { values, start, count, by } = from;
  let most = -Infinity;
  for (let at = 0; at < count; at++) {
    const each = values[start + at] ?? 0;
    if (each > most) most = each;
  }
  let sum = 0;
  const first = row * to.terms;
  for (let at = 0; at < to.terms; at++) {
    const power = at < count ? by * ((values[start + at] ?? 0) - most) : -Infinity;
    const weight = power < NOTHING ? 0 : Math.exp(power);
    sum += weight;
    to.values[first + at] = roundedBy(weight, MOST);
  }
  to.scales.values[row] = 1 / (MOST * sum);
}
