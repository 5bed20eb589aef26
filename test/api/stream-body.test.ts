import assert from 'node:assert/strict';
import { createServer, get, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pipeline } from 'node:stream';
import { streamBody } from '../../api/runs/stream-body.ts';
import { waitUntil } from '../support/wait-until.ts';

const FRAME = 'x'.repeat(256 * 1024);
const FRAMES = 400;

describe('The body of a stream', () => {
  let server: Server;
  let made: number;
  let hasEnded: boolean;

  /** Serves frames without a pause, and counts those that were made. */
  const open = async (stallMs: number, count = FRAMES): Promise<IncomingMessage> => {
    made = 0;
    hasEnded = false;
    async function* frames() {
      try {
        for (; made < count; made++) yield FRAME;
      } finally {
        hasEnded = true;
      }
    }
    server = createServer((_request, response) => {
      pipeline(streamBody(response, frames(), stallMs), response, () => undefined);
    });
    await new Promise<void>((resolve) => {
      server.listen(0, '127.0.0.1', resolve);
    });
    return new Promise((resolve, reject) => {
      get(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, resolve).on('error', reject);
    });
  };
  afterEach(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => {
      server.close(resolve);
    });
  });

  it('is made no further than a client takes it, and ends when the client stalls', async () => {
    const stalled = await open(300);
    const cut = new Promise((resolve) => {
      stalled.on('error', resolve);
    });
    await waitUntil('the stream is cut off', () => hasEnded);
    // What the kernel holds for both ends, and one frame or two.
    assert.ok(made < FRAMES / 2, `${made} frames`);
    stalled.resume();
    await cut;
  });

  it('comes whole to a client that reads', async () => {
    const reading = await open(60_000, 40);
    let bytes = 0;
    for await (const chunk of reading) bytes += (chunk as Buffer).length;
    assert.equal(bytes, 40 * FRAME.length);
  });
});
