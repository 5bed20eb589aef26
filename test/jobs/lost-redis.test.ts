import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { randomUUID } from 'node:crypto';
import { TEST_REDIS_URL } from '../support/modes.ts';
import { startProcess } from '../support/processes.ts';
import { waitUntil } from '../support/wait-until.ts';

/** Passes on what is said between a client and Redis until it is told to be silent, as a Redis that is frozen. */
async function relayTo(url: string): Promise<{ url: string; fallSilent: () => void; close: () => void }> {
  const own = new URL(url);
  const { hostname, port } = own;
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
    const far = connect(Number(port), hostname);
    near.pipe(far).pipe(near);
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on('error', () => socket.destroy());
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  own.hostname = '127.0.0.1';
  own.port = String((server.address() as AddressInfo).port);
  return {
    url: own.href,
    fallSilent() {
      for (const socket of sockets) socket.unpipe();
    },
    close() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

describe('A worker that closes', () => {
  before(function () {
    if (TEST_REDIS_URL === undefined) this.skip();
  });

  for (const [what, lose] of Object.entries({ 'falls silent': 'fallSilent', 'goes away': 'close' } as const)) {
    it(`has nothing left where Redis ${what}, though the end of its job was never confirmed`, async () => {
      const relay = await relayTo(TEST_REDIS_URL ?? '');
      try {
        const worker = await startProcess('worker', {
          file: 'test/support/closing-worker.ts',
          env: { REDIS_URL: relay.url, QUEUE_PREFIX: randomUUID() },
          ready: /at work/,
        });
        relay[lose]();
        if (lose === 'close') await waitUntil('it looks for Redis', () => worker.output().includes('ECONNREFUSED'));
        assert.deepEqual(await worker.end('SIGTERM'), [0, null], worker.output());
      } finally {
        relay.close();
      }
    });
  }
});
