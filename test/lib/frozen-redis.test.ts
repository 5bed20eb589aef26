import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { ALL } from '../../bus/payloads.ts';
import type { BusTransport } from '../../bus/batching-bus.ts';
import { openRedisTransport } from '../../bus/redis-transport.ts';
import type { Database } from '../../db/database.ts';
import { openQueueBackend, type QueueBackend } from '../../jobs/backend.ts';
import { connectRedis, openRedis } from '../../lib/open-redis.ts';
import { startRedisPair, type RedisPair } from '../support/own-redis.ts';
import { waitUntil } from '../support/wait-until.ts';

/** 15 s until the silence is noticed, and a second to connect; the rest is for a busy machine. */
const SOON_MS = 30_000;

describe('Connections to a Redis that freezes without closing them', () => {
  let pair: RedisPair;
  let backend: QueueBackend;
  let transport: BusTransport;
  let optional: Awaited<ReturnType<typeof openRedis>>;
  let idle: ReturnType<typeof connectRedis>;
  let idleId: number;
  const worked: string[] = [];
  const heard: string[] = [];
  let gaps = 0;

  before(async function () {
    const started = await startRedisPair();
    if (started === undefined) return this.skip();
    pair = started;
    const { url } = pair.address;
    const settings = {
      mode: 'full',
      redisUrl: url,
      queuePrefix: randomUUID(),
      leaseMs: 1000,
      shutdownGraceMs: 0,
    } as const;
    // A queue on Redis asks no database.
    backend = await openQueueBackend(settings, undefined as unknown as Database);
    const worker = backend.worker('work', async (job) => void worked.push(String(job.id)));
    await backend.queue('work').add('work', {}, { jobId: 'before' });
    await once(worker, 'completed');
    transport = await openRedisTransport(
      { url, channel: 'bus' },
      {
        address: 'here',
        onPayload: (payload) => void heard.push(payload),
        onGap: () => (gaps += 1),
        onError: () => undefined,
      },
    );
    optional = await openRedis(url, { commandTimeoutMs: 250, onError: () => undefined });
    idle = connectRedis(pair.second.url, assert.fail, {});
    idleId = await idle.client('ID');
    pair.freezeFirst();
  });
  after(async () => {
    await backend?.close(0);
    await transport?.close();
    await optional?.close();
    idle?.disconnect();
    await pair?.close();
  });

  const untilIt = (what: string, act: () => Promise<unknown>) => {
    const succeeds = () =>
      act().then(
        () => true,
        () => false,
      );
    return waitUntil(what, succeeds, SOON_MS);
  };

  it('are replaced where jobs are sent and taken, where a process listens and sends, and where rates are counted', async () => {
    const sendAndTake = async () => {
      await untilIt('the queue is ready', () => backend.ping(1000));
      await backend.queue('work').add('work', {}, { jobId: 'after' });
      await waitUntil('the job is done', () => worked.includes('after'), SOON_MS);
    };
    const tell = async () => {
      await untilIt('it sends', () => transport.send([{ to: ALL, payload: 'hello' }]));
      await waitUntil('it listens again, and tells of the gap', () => gaps === 1, SOON_MS);
    };
    const count = () => untilIt('it answers', () => optional.inTime(optional.client.incr('count')));
    await Promise.all([sendAndTake(), tell(), count()]);
  });

  it('stay where the frozen one goes on, and nothing is lost or comes twice', async () => {
    pair.thawFirst();
    await backend.queue('work').add('work', {}, { jobId: 'later' });
    await waitUntil('the job is done', () => worked.includes('later'), SOON_MS);
    await transport.send([{ to: ALL, payload: 'bye' }]);
    await waitUntil('it hears', () => heard.includes('bye'), SOON_MS);
    assert.deepEqual(worked, ['before', 'after', 'later']);
    assert.equal(gaps, 1);
  });

  it('are not replaced where a healthy one had nothing to answer all the while', async () => {
    assert.equal(await idle.client('ID'), idleId);
  });
});
