/** Reads bodies as text. They are in memory as a whole, and share one room while they are read. */
import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { createBrotliDecompress, createUnzip } from 'node:zlib';
import { badRequest, DroverError, tooLarge } from '../../core/errors.ts';
import type { Room } from './shared-room.ts';

interface Bounds {
  maxBytes: number;
  room: Room;
}

/**
 * Reads and decompresses a body, which takes room as it arrives. Throws 400 for one that breaks off, cannot be
 * decompressed or is not UTF-8, 413 for more than `maxBytes`, 415 for another Content-Encoding, 503 if there is no room; the rest is
 * then discarded.
 */
export async function readText(request: IncomingMessage, { maxBytes, room }: Bounds): Promise<string> {
  const source = unpacked(request);
  if (source === request) {
    // The size of a compressed body is not known.
    const bytes = Number(request.headers['content-length'] ?? 0);
    if (bytes > maxBytes) throw tooLargeBody(maxBytes);
    room.require(bytes);
  }
  const blocks = createBlocks();
  try {
    for await (const chunk of source.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      room.take(chunk.length);
      blocks.add(chunk);
      if (blocks.bytes() > maxBytes) throw tooLargeBody(maxBytes);
    }
    return decode(blocks.join());
  } catch (error) {
    throw explain(error);
  } finally {
    room.give(blocks.bytes());
    if (source !== request) {
      request.unpipe();
      source.destroy();
    }
    request.resume();
  }
}

/** Strict: other encodings would lose their letters in silence. */
function decode(bytes: Buffer): string {
  if (!isUtf8(bytes)) throw badRequest('The body is not UTF-8.');
  return new TextDecoder().decode(bytes);
}

function unpacked(request: IncomingMessage): Readable {
  // Its data is lost, and no event would say so.
  if (request.destroyed) throw brokenOff();
  const encoding = request.headers['content-encoding'] ?? '';
  if (encoding === '' || encoding === 'identity') return request;
  const unpacking = unpackerOf(encoding);
  if (!unpacking)
    throw new DroverError('unsupported-media-type', 415, 'The Content-Encoding must be gzip, deflate, br or identity.');
  // A pipe does not pass this on.
  request.once('close', () => {
    if (!request.complete) unpacking.destroy(brokenOff());
  });
  return request.pipe(unpacking);
}

function unpackerOf(encoding: string) {
  if (encoding === 'br') return createBrotliDecompress();
  return encoding === 'gzip' || encoding === 'deflate' ? createUnzip() : undefined;
}

const LEAST_BLOCK_BYTES = 1024;
const MOST_BLOCK_BYTES = 64 * 1024;

/** Collects chunks of any size in blocks: a small chunk kept as a buffer takes a hundred times its size. */
function createBlocks() {
  const full: Buffer[] = [];
  let block = Buffer.alloc(0);
  let used = 0;
  let bytes = 0;
  return {
    bytes: () => bytes,
    add(chunk: Buffer): void {
      for (let from = 0; from < chunk.length;) {
        if (used === block.length) {
          full.push(block);
          block = Buffer.allocUnsafeSlow(Math.min(Math.max(bytes, LEAST_BLOCK_BYTES), MOST_BLOCK_BYTES));
          used = 0;
        }
        const copied = chunk.copy(block, used, from);
        used += copied;
        from += copied;
        bytes += copied;
      }
    },
    join: () => Buffer.concat([...full, block.subarray(0, used)]),
  };
}

function explain(error: unknown): unknown {
  if (error instanceof DroverError) return error;
  return isOfZlib(error) ? badRequest('The body cannot be decompressed as its Content-Encoding says.') : brokenOff();
}

/** `Z_DATA_ERROR` and the like; brotli's begin with `ERR_`, such as `ERR__ERROR_FORMAT_PADDING_1`. */
function isOfZlib(error: unknown): boolean {
  return error instanceof Error && 'errno' in error && 'code' in error && /^(Z_|ERR_)/.test(String(error.code));
}

const tooLargeBody = (maxBytes: number) => tooLarge(`The body is larger than ${maxBytes} bytes.`);
const brokenOff = () => badRequest('The body could not be read to its end.');
