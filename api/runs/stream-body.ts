import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { LIMITS } from '../../core/limits.ts';

/** What is rendered ahead of a client, in bytes; by default it would be 16 texts, of whatever size. */
const AHEAD_BYTES = 64 * 1024;

/**
 * The body of a stream. One whose client takes nothing for `stallMs` is cut off, so that it holds no memory and no place: it
 * comes back with `Last-Event-ID`. A client that reads, however slowly, is kept, and so is a quiet stream, which has its pings.
 */
export function streamBody(
  response: ServerResponse,
  texts: AsyncIterable<string>,
  stallMs: number = LIMITS.streamStallSeconds * 1000,
): Readable {
  response.setTimeout(stallMs, () => void response.destroy());
  return Readable.from(texts, { objectMode: false, highWaterMark: AHEAD_BYTES });
}
