import { createRedisBackend } from 'bullmq';
import { Redis, type RedisOptions } from 'ioredis';
import { withDeadline } from '../lib/deadline.ts';
import { RefusesWritesError } from '../lib/refuses-writes-error.ts';
import type { QueueTransport, ReportError } from './queue-transport.ts';

const CONNECT_TIMEOUT_MS = 5000;
const COMMAND_TIMEOUT_MS = 5000;
const FIRST_CONNECTION_MS = 2000;
const CLOSE_TIMEOUT_MS = 2000;
const KEPT_MS = 60_000;

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
export async function openRedisQueues(
  { url, prefix }: { url: string; prefix: string },
  report: ReportError,
): Promise<QueueTransport> {
  const producer = new Redis(url, PRODUCER);
  const worker = new Redis(url, { ...WORKER, lazyConnect: true });
  for (const [name, client] of [
    ['queue', producer],
    ['worker', worker],
  ] as const) {
    client.setMaxListeners(0);
    client.on('error', (error: Error) => report(error, `redis ${name} connection`));
  }
  await firstConnection(producer).catch((error: unknown) => {
    for (const client of [producer, worker]) client.disconnect();
    throw error;
  });
  return {
    kind: 'redis',
    factory: createRedisBackend,
    producerConnection: producer,
    workerConnection: worker,
    // The client sends them together, and does not wait for one answer before it sends the next.
    states: (queue, ids) => Promise.all(ids.map((id) => queue.getJobState(id))),
    ping: (timeoutMs) =>
      withDeadline(tryToWrite(producer, `${prefix}:ready`), timeoutMs, `No answer from Redis within ${timeoutMs} ms`),
    async close() {
      await Promise.all([quit(producer), quit(worker)]);
    },
  };
}

/** What Redis refuses a connection with: a wrong user or password, and none where it wants one. */
const REFUSED_LOGIN = /^(WRONGPASS|NOAUTH)\b/;

/**
 * Waits a moment for Redis, so that a call right after the start does not fail; without Redis the process starts, too.
 * Throws where there is one that refuses it: that does not pass by itself.
 */
async function firstConnection(client: Redis): Promise<void> {
  let refusal: Error | undefined;
  const ready = new Promise<void>((resolve) => {
    client.once('ready', resolve);
    client.on('error', (error: Error) => {
      if (!REFUSED_LOGIN.test(error.message)) return;
      refusal = new Error(`REDIS_URL leads to a Redis that refuses it: ${error.message.replace(/\.?$/, '.')}`);
      resolve();
    });
  });
  await withDeadline(ready, FIRST_CONNECTION_MS, 'Redis is not there yet').catch(() => undefined);
  if (refusal) throw refusal;
}

/** A PING is answered by a replica, too, and by a Redis whose memory or disk is full: jobs are not. */
async function tryToWrite(client: Redis, key: string): Promise<void> {
  try {
    await client.set(key, '1', 'PX', KEPT_MS);
  } catch (error) {
    // OOM, READONLY, MISCONF, NOPERM: what Redis itself answers says so in capitals.
    const [why] = (error instanceof Error && /^[A-Z]+(?= )/.exec(error.message)) || [];
    throw why === undefined ? error : new RefusesWritesError(why, error);
  }
}

async function quit(client: Redis): Promise<void> {
  if (client.status === 'ready')
    await withDeadline(client.quit(), CLOSE_TIMEOUT_MS, 'Redis did not say goodbye').catch(() => undefined);
  client.disconnect();
}
