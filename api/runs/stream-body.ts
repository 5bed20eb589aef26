import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { LIMITS } from '../../core/limits.ts';
import { cutOffStalled } from '../../lib/cut-off-stalled.ts';

/** Bytes rendered ahead of the client; the default would be 16 texts of any size. */
const AHEAD_BYTES = 64 * 1024;

/**
 * The body of a stream. Cuts off a client that takes nothing for `stallMs`, to free memory and its place; it can return
 * with `Last-Event-ID`. Slow readers are kept, and so are quiet streams, which have pings.
 */
export function streamBody(
  response: ServerResponse,
  texts: AsyncIterable<string>,
  stallMs: number = LIMITS.streamStallSeconds * 1000,
): Readable {
  cutOffStalled(response, stallMs);
  return Readable.from(texts, { objectMode: false, highWaterMark: AHEAD_BYTES });
}
