import { createRedisBackend } from 'bullmq';
import { Redis, type RedisOptions } from 'ioredis';
import { withDeadline } from '../lib/deadline.ts';
import type { QueueTransport, ReportError } from './queue-transport.ts';

const CONNECT_TIMEOUT_MS = 5000;
const COMMAND_TIMEOUT_MS = 5000;
const FIRST_CONNECTION_MS = 2000;
const CLOSE_TIMEOUT_MS = 2000;

/** How long a lost connection is left alone before the next attempt. */
const retryStrategy = (attempt: number): number => Math.min(50 * 2 ** Math.min(attempt, 6), 2000);

const COMMON = {
  connectTimeout: CONNECT_TIMEOUT_MS,
  keepAlive: 10_000,
  retryStrategy,
} satisfies RedisOptions;

/** A caller gets an error soon, and can answer 503, instead of waiting for a Redis that is away. */
const PRODUCER = {
  ...COMMON,
  enableOfflineQueue: false,
  maxRetriesPerRequest: 1,
  commandTimeout: COMMAND_TIMEOUT_MS,
} satisfies RedisOptions;

/** A worker has nobody to answer; it waits. BullMQ demands the null. */
const WORKER = { ...COMMON, maxRetriesPerRequest: null } satisfies RedisOptions;

/**
 * BullMQ on Redis: one connection for all queues and flows of the process, one for what its workers write, and, made by
 * BullMQ, one for each worker to wait on.
 */
export async function openRedisQueues(url: string, report: ReportError): Promise<QueueTransport> {
  const producer = new Redis(url, PRODUCER);
  const worker = new Redis(url, { ...WORKER, lazyConnect: true });
  for (const [name, client] of [
    ['queue', producer],
    ['worker', worker],
  ] as const) {
    client.setMaxListeners(0);
    client.on('error', (error: Error) => report(error, `redis ${name} connection`));
  }
  await firstConnection(producer);
  return {
    kind: 'redis',
    factory: createRedisBackend,
    producerConnection: producer,
    workerConnection: worker,
    // The client sends them together, and does not wait for one answer before it sends the next.
    states: (queue, ids) => Promise.all(ids.map((id) => queue.getJobState(id))),
    async ping(timeoutMs) {
      await withDeadline(producer.ping(), timeoutMs, `No answer from Redis within ${timeoutMs} ms`);
    },
    async close() {
      await Promise.all([quit(producer), quit(worker)]);
    },
  };
}

/** Waits a moment for Redis, so that a call right after the start does not fail; without Redis the process starts, too. */
async function firstConnection(client: Redis): Promise<void> {
  const ready = new Promise<void>((resolve) => {
    client.once('ready', resolve);
  });
  await withDeadline(ready, FIRST_CONNECTION_MS, 'Redis is not there yet').catch(() => undefined);
}

async function quit(client: Redis): Promise<void> {
  if (client.status === 'ready')
    await withDeadline(client.quit(), CLOSE_TIMEOUT_MS, 'Redis did not say goodbye').catch(() => undefined);
  client.disconnect();
}
