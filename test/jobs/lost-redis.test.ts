import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { openServiceProxy, type ServiceProxy } from '../../scripts/kit/service-proxy.ts';
import { TEST_REDIS_URL } from '../support/modes.ts';
import { startProcess } from '../support/processes.ts';
import { waitUntil } from '../support/wait-until.ts';

const LOSSES: Record<string, (redis: ServiceProxy) => void | Promise<void>> = {
  'falls silent': (redis) => redis.setLatency(3_600_000),
  'goes away': (redis) => redis.cut(),
};

describe('A worker that closes', () => {
  before(function () {
    if (TEST_REDIS_URL === undefined) this.skip();
  });

  for (const [what, lose] of Object.entries(LOSSES)) {
    it(`has nothing left where Redis ${what}, though the end of its job was never confirmed`, async () => {
      const redis = await openServiceProxy(TEST_REDIS_URL ?? '');
      try {
        const worker = await startProcess('worker', {
          file: 'test/support/closing-worker.ts',
          env: { REDIS_URL: redis.url, QUEUE_PREFIX: randomUUID() },
          ready: /at work/,
        });
        await lose(redis);
        if (redis.count() === 0) await waitUntil('it looks for Redis', () => worker.output().includes('ECONNREFUSED'));
        assert.deepEqual(await worker.end('SIGTERM'), [0, null], worker.output());
      } finally {
        await redis.close();
      }
    });
  }
});
