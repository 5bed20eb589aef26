import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { buildConnector, Client } from 'undici';
import { holdBackEnd } from '../../lib/hold-back-end.ts';
import { startServer, type LocalServer } from '../support/echo-server.ts';
import { waitUntil } from '../support/wait-until.ts';

const BODY = 'x'.repeat(60_000);
const FRAMES = {
  'with a length': `content-length: ${BODY.length}\r\nconnection: close\r\n\r\n${BODY}`,
  'without one': `\r\n${BODY}`,
  'in chunks': `transfer-encoding: chunked\r\nconnection: close\r\n\r\n${BODY.length.toString(16)}\r\n${BODY}\r\n0\r\n\r\n`,
};

describe('The end of a connection', () => {
  let server: LocalServer;
  let framed = '';
  let socket: Socket;
  let client: Client;

  before(async () => {
    server = await startServer((request) => request.socket.write(`HTTP/1.1 200 OK\r\n${framed}`));
  });
  after(() => server.close());
  beforeEach(() => {
    const connect = buildConnector({});
    client = new Client(server.url, {
      connect: (options, callback) =>
        connect(options, (...[error, opened]) => {
          if (error) return callback(error, null);
          socket = opened;
          callback(null, holdBackEnd(opened));
        }),
    });
  });
  afterEach(() => client.destroy());

  /** An answer all of which has come, and whose reader has not begun. */
  const unread = async (frame: string) => {
    framed = frame;
    const { body } = await client.request({ path: '/', method: 'GET', highWaterMark: 1000 });
    const bytes = 'HTTP/1.1 200 OK\r\n'.length + frame.length;
    await waitUntil('all has come', () => socket.bytesRead === bytes);
    return body;
  };

  for (const [name, frame] of Object.entries(FRAMES)) {
    it(`is told once an answer that is read late has been read, ${name}`, async () => {
      const body = await unread(frame);
      server.seen.at(-1)?.socket.end();
      await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
      assert.equal(await body.text(), BODY);
    });

    it(`by a reset breaks off an answer that is read late, ${name}`, async () => {
      const body = await unread(frame);
      const failed = assert.rejects(once(body, 'end'), /reset/);
      server.seen.at(-1)?.socket.resetAndDestroy();
      await failed;
    });
  }

  it('is told at once where nothing is left to read', async () => {
    const body = await unread(FRAMES['in chunks']);
    assert.equal(await body.text(), BODY);
    server.seen.at(-1)?.socket.end();
    await once(socket, 'close');
  });

  it('breaks off an answer that is not whole', async () => {
    const body = await unread(FRAMES['with a length'].slice(0, -1000));
    server.seen.at(-1)?.socket.end();
    await assert.rejects(body.text());
  });
});
