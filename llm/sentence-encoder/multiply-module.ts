/**
 * A WebAssembly module with one function, which multiplies matrices of 16-bit numbers: eight products an instruction,
 * where 32-bit floats give four. Assembled from instructions here, so that nothing is compiled or shipped as bytes.
 */

/** The parts of WebAssembly used here, which Node's types omit. */
declare const WebAssembly: {
  Memory: new (of: { initial: number }) => WasmMemory;
  Module: new (bytes: Uint8Array) => object;
  Instance: new (module: object, imports: object) => { exports: { multiply: (...values: number[]) => void } };
};

interface WasmMemory {
  readonly buffer: ArrayBuffer;
}

/** Memory of at least this size. */
export function openMemory(bytes: number): WasmMemory {
  return new WebAssembly.Memory({ initial: Math.ceil(bytes / 65_536) });
}

/** Arguments of `multiply`, in bytes or counts. It adds: c[row][column] += (a · b) · scalesA[row] · scalesB[column]. */
interface Product {
  /** Rows of 16-bit numbers, `strideA` bytes apart. */
  a: number;
  /** Panels of eight columns, `strideB` bytes apart: for each two rows, the eight pairs side by side. */
  b: number;
  /** Rows of floats, `strideC` bytes apart. */
  c: number;
  scalesA: number;
  scalesB: number;
  /** A multiple of `TILE_ROWS`. */
  rows: number;
  /** A multiple of `TILE_COLUMNS`. */
  columns: number;
  /** Half of the terms of each sum, a multiple of `PAIRS_TOGETHER`. */
  pairs: number;
  strideA: number;
  strideB: number;
  strideC: number;
}

export const TILE_ROWS = 4;
export const TILE_COLUMNS = 8;
export const PAIRS_TOGETHER = 4;

const PARAMETERS = [
  'a', 'b', 'c', 'scalesA', 'scalesB', 'rows', 'columns', 'pairs', 'strideA', 'strideB', 'strideC',
] as const; // prettier-ignore
const COUNTERS = ['row', 'rowC', 'rowScale', 'rowsLeft', 'at', 'end', 'a0', 'a1', 'a2', 'a3'] as const;
const ROWS = Array.from({ length: TILE_ROWS }, (_, row) => row);
const SUMS = ROWS.flatMap((row) => [`sum${row}l`, `sum${row}r`]);
const VECTORS = ['left', 'right', 'spread', ...SUMS];
const LOCALS: readonly string[] = [...PARAMETERS, ...COUNTERS, ...VECTORS];

const I32 = 0x7f;
const V128 = 0x7b;

/** Concatenates instructions. */
const code = (...parts: (number | readonly number[])[]): number[] => parts.flat();

/** Encodes a number that is not negative (LEB128). */
function unsigned(value: number): number[] {
  return value < 128 ? [value] : [(value % 128) + 128, ...unsigned(Math.floor(value / 128))];
}

/** A signed constant: the sixth bit of its last byte must be free. */
function constant(value: number): number[] {
  const rest: number[] = [];
  let left = value;
  for (; left >= 64; left = Math.floor(left / 128)) rest.push((left % 128) + 128);
  return [0x41, ...rest, left];
}

const get = (name: string) => [0x20, LOCALS.indexOf(name)];
const set = (name: string) => [0x21, LOCALS.indexOf(name)];
const copy = (to: string, from: string) => code(get(from), set(to));
const advance = (name: string, by: readonly number[]) => code(get(name), by, 0x6a, set(name));
const times = (name: string, factor: number) => code(get(name), constant(factor), 0x6c);
const vector = (operation: number) => [0xfd, ...unsigned(operation)];
const at = (offset: number) => [0, ...unsigned(offset)];

/** Repeats `inside` until `name`, decreased by `step` each time, is zero. */
function repeat(inside: readonly number[], name: string, step: number): number[] {
  const less = code(get(name), constant(step), 0x6b, 0x22, LOCALS.indexOf(name));
  return code(0x03, 0x40, inside, less, 0x0d, 0, 0x0b);
}

const LOAD = vector(0x00);
const LOAD_SPREAD = vector(0x09);
const STORE = vector(0x0b);
const ZERO = code(
  vector(0x0c),
  Array.from({ length: 16 }, () => 0),
);
const LOAD_FLOAT = 0x2a;
const SPREAD_FLOAT = vector(0x13);
const ADD_INTEGERS = vector(0xae);
const MULTIPLY_PAIRS = vector(0xba);
const ADD_FLOATS = vector(0xe4);
const MULTIPLY_FLOATS = vector(0xe6);
const TO_FLOATS = vector(0xfa);

/** Adds two terms to each sum of a tile. */
function addPair(pair: number): number[] {
  const half = (side: 'left' | 'right', sum: string) =>
    code(get(sum), get('spread'), get(side), MULTIPLY_PAIRS, ADD_INTEGERS, set(sum));
  const row = (number: number) =>
    code(
      code(get(`a${number}`), LOAD_SPREAD, at(4 * pair), set('spread')),
      half('left', `sum${number}l`),
      half('right', `sum${number}r`),
    );
  return code(
    code(get('at'), LOAD, at(32 * pair), set('left')),
    code(get('at'), LOAD, at(32 * pair + 16), set('right')),
    ROWS.flatMap(row),
  );
}

/** Adds the scaled sums of a tile to `c`. */
function storeTile(): number[] {
  const half = (row: number, offset: number) => {
    const before = code(get('rowC'), LOAD, at(offset));
    const sum = code(get(`sum${row}${offset === 0 ? 'l' : 'r'}`), TO_FLOATS);
    const ofRow = code(get('rowScale'), LOAD_FLOAT, at(4 * row), SPREAD_FLOAT, MULTIPLY_FLOATS);
    const ofColumns = code(get('scalesB'), LOAD, at(offset), MULTIPLY_FLOATS);
    return code(get('rowC'), before, sum, ofRow, ofColumns, ADD_FLOATS, STORE, at(offset));
  };
  return ROWS.flatMap((row) => code(half(row, 0), half(row, 16), advance('rowC', get('strideC'))));
}

function body(): number[] {
  const terms = code(
    Array.from({ length: PAIRS_TOGETHER }, (_, pair) => addPair(pair)).flat(),
    ROWS.flatMap((row) => advance(`a${row}`, constant(4 * PAIRS_TOGETHER))),
    advance('at', constant(32 * PAIRS_TOGETHER)),
  );
  const tile = code(
    copy('a0', 'row'),
    ROWS.slice(1).flatMap((row) => code(get(`a${row - 1}`), get('strideA'), 0x6a, set(`a${row}`))),
    advance('row', times('strideA', TILE_ROWS)),
    copy('at', 'b'),
    copy('end', 'pairs'),
    SUMS.flatMap((sum) => code(ZERO, set(sum))),
    repeat(terms, 'end', PAIRS_TOGETHER),
    storeTile(),
    advance('rowScale', constant(4 * TILE_ROWS)),
  );
  const panel = code(
    code(copy('row', 'a'), copy('rowC', 'c'), copy('rowScale', 'scalesA'), copy('rowsLeft', 'rows')),
    repeat(tile, 'rowsLeft', TILE_ROWS),
    advance('b', get('strideB')),
    advance('c', constant(4 * TILE_COLUMNS)),
    advance('scalesB', constant(4 * TILE_COLUMNS)),
  );
  return repeat(panel, 'columns', TILE_COLUMNS);
}

const text = (of: string) => [of.length, ...Buffer.from(of)];
const section = (id: number, content: readonly number[]) => [id, ...unsigned(content.length), ...content];

/** Compiles `multiply` for a memory, which the caller fills and reads. */
export function compileMultiply(memory: WasmMemory): (product: Product) => void {
  const types = PARAMETERS.map(() => I32);
  const instructions = code(2, COUNTERS.length, I32, VECTORS.length, V128, body(), 0x0b);
  const bytes = code(
    [0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    section(1, code(1, 0x60, types.length, types, 0)),
    section(2, code(1, text('o'), text('memory'), 2, 0, 1)),
    section(3, [1, 0]),
    section(7, code(1, text('multiply'), 0, 0)),
    section(10, code(1, unsigned(instructions.length), instructions)),
  );
  const module = new WebAssembly.Module(Uint8Array.from(bytes));
  const { multiply } = new WebAssembly.Instance(module, { o: { memory } }).exports;
  return (product) => multiply(...PARAMETERS.map((name) => product[name]));
}
