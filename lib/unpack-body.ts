/** Undoes the compression of an answer's body (RFC 9110, 8.4): strictly, since half a body must not pass for a whole one. */
import { addAbortSignal, pipeline } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate, createInflateRaw } from 'node:zlib';

type Pieces = AsyncIterable<Uint8Array>;

/** How a body is packed. */
export interface Packing {
  /** In the order in which they were applied; empty for a body that is as it is, or that cannot be unpacked. */
  encodings: readonly Encoding[];
  /** An encoding that is not known, or is no encoding: some servers name a charset. */
  unknown?: string | undefined;
  /** Whether the head says where the body ends: then one without a byte is empty, and else it has broken off. */
  isFramed: boolean;
}

type Encoding = keyof typeof UNPACKERS;

/** A body is not what its Content-Encoding says: it breaks off, or has another form. */
export class UnpackError extends Error {}

/** A body has an encoding that nobody here can undo, and is no text as it is. */
export class UnknownEncodingError extends Error {
  constructor(encoding: string) {
    super(
      `the answer has the Content-Encoding "${encoding}", and only gzip, deflate and br can be undone, two at most`,
    );
  }
}

/** Each makes the stream that undoes an encoding, by the first byte of what is packed. */
const UNPACKERS = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  br: createBrotliDecompress,
  // Some servers leave out the header that the standard asks for; its first byte names the method (8).
  deflate: (first: number | undefined) => ((first ?? 0) % 16 === 8 ? createInflate() : createInflateRaw()),
} satisfies Record<string, unknown>;

/** Each multiplies the work that a short answer can make. */
const MOST_ENCODINGS = 2;
/** What is packed is hardly larger than what it holds; the unpackers take in some of it ahead. */
const MOST_BYTES_FOR_NOTHING = 1_000_000;
const NO_BODY = [204, 205, 304];

/** How the body of an answer is packed. */
export function packingOf(
  { status, headers }: { status: number; headers: { get(name: string): string | null } },
  encoding: string | null | undefined,
): Packing {
  const isFramed = headers.get('content-length') !== null || headers.get('transfer-encoding') !== null;
  const names = NO_BODY.includes(status) ? [] : (encoding ?? '').toLowerCase().split(/[\s,]+/);
  const applied = names.filter((name) => name !== '' && name !== 'identity');
  const tooMany = applied.length > MOST_ENCODINGS ? applied.join(', ') : undefined;
  const unknown = applied.find((name) => !isKnown(name)) ?? tooMany;
  if (unknown !== undefined) return { encodings: [], isFramed, unknown: unknown.slice(0, 100) };
  return { encodings: applied.filter(isKnown), isFramed };
}

function isKnown(name: string): name is Encoding {
  return Object.hasOwn(UNPACKERS, name);
}

/**
 * The body as it was before it was packed. Throws `UnpackError`, `UnknownEncodingError`, and what `pieces` throws. An abort ends
 * the work, also when all of `pieces` has been read.
 */
export function unpackBody(pieces: Pieces, { encodings, isFramed, unknown }: Packing, signal: AbortSignal): Pieces {
  if (unknown !== undefined) return textOnly(pieces, unknown);
  const [first, ...others] = encodings.toReversed();
  if (!first) return pieces;
  const outer = unpack(pieces, { encoding: first, mayBeEmpty: isFramed, signal });
  return others.reduce((inner, encoding) => unpack(inner, { encoding, mayBeEmpty: false, signal }), outer);
}

async function* textOnly(pieces: Pieces, encoding: string): AsyncGenerator<Uint8Array> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  for await (const piece of pieces) {
    if (!decodes(decoder, piece)) throw new UnknownEncodingError(encoding);
    yield piece;
  }
}

function decodes(decoder: InstanceType<typeof TextDecoder>, piece: Uint8Array): boolean {
  try {
    decoder.decode(piece, { stream: true });
    return true;
  } catch {
    return false;
  }
}

interface Layer {
  encoding: Encoding;
  mayBeEmpty: boolean;
  signal: AbortSignal;
}

async function* unpack(pieces: Pieces, { encoding, mayBeEmpty, signal }: Layer): AsyncGenerator<Uint8Array> {
  const source = pieces[Symbol.asyncIterator]();
  const first = await source.next();
  if (first.done) {
    if (mayBeEmpty) return;
    throw brokenOff();
  }
  signal.throwIfAborted();
  const unpacker = addAbortSignal(signal, UNPACKERS[encoding](first.value[0]));
  const bytes = { in: 0, out: 0 };
  const packed = counted(startingWith(first.value, source), bytes);
  try {
    for await (const piece of pipeline(packed, unpacker, () => undefined) as Pieces) {
      bytes.out += piece.byteLength;
      yield piece;
    }
  } catch (error) {
    throw explain(error, encoding);
  }
}

async function* startingWith(first: Uint8Array, rest: AsyncIterator<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield first;
  yield* { [Symbol.asyncIterator]: () => rest };
}

/** Breaks off where hardly anything comes out: a limit of what comes out would never end that. */
async function* counted(packed: Pieces, bytes: { in: number; out: number }): AsyncGenerator<Uint8Array> {
  for await (const piece of packed) {
    bytes.in += piece.byteLength;
    if (bytes.in - bytes.out > MOST_BYTES_FOR_NOTHING)
      throw new UnpackError('the answer is packed in far more bytes than it has');
    yield piece;
  }
}

/** Errors of zlib have codes such as `Z_DATA_ERROR`; those of brotli begin with `ERR_`, and have a number, too. */
function explain(error: unknown, encoding: Encoding): unknown {
  if (!(error instanceof Error && 'errno' in error && 'code' in error)) return error;
  if (error.code === 'Z_BUF_ERROR') return brokenOff();
  return /^(Z_|ERR_)/.test(String(error.code))
    ? new UnpackError(`the answer is not packed as its Content-Encoding says (${encoding})`)
    : error;
}

function brokenOff(): UnpackError {
  return new UnpackError('the answer breaks off');
}
