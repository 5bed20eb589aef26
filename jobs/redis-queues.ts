import { createRedisBackend } from 'bullmq';
import type { Redis, RedisOptions } from 'ioredis';
import { withDeadline } from '../lib/deadline.ts';
import { awaitAtStart, connected, connectRedis, quitRedis } from '../lib/open-redis.ts';
import { RefusesWritesError } from '../lib/refuses-writes-error.ts';
import type { QueueTransport, ReportError } from './queue-transport.ts';

const COMMAND_TIMEOUT_MS = 5000;
const KEPT_MS = 60_000;

/** Callers get an error soon, and can answer 503, instead of waiting for a Redis that is away. */
const PRODUCER = {
  enableOfflineQueue: false,
  maxRetriesPerRequest: 1,
  commandTimeout: COMMAND_TIMEOUT_MS,
} satisfies RedisOptions;

/**
 * No caller waits, so it waits for Redis. BullMQ demands the null, and lets its copies of this connection wait for up to
 * 10 s in one command.
 */
const WORKER = { maxRetriesPerRequest: null, lazyConnect: true, socketTimeout: 15_000 } satisfies RedisOptions;

/**
 * BullMQ on Redis: one connection for all queues and flows of the process, one for its workers' writes, and one for
 * each worker to wait on, which BullMQ makes.
 */
export async function openRedisQueues(
  { url, prefix }: { url: string; prefix: string },
  report: ReportError,
): Promise<QueueTransport> {
  const producer = connectRedis(url, (error) => report(error, 'redis queue connection'), PRODUCER);
  const worker = connectRedis(url, (error) => report(error, 'redis worker connection'), WORKER);
  for (const client of [producer, worker]) client.setMaxListeners(0);
  await firstConnection(producer).catch((error: unknown) => {
    for (const client of [producer, worker]) client.disconnect();
    throw error;
  });
  return {
    kind: 'redis',
    factory: createRedisBackend,
    producerConnection: producer,
    workerConnection: worker,
    // Pipelined: the client sends them without waiting for each answer.
    states: (queue, ids) => Promise.all(ids.map((id) => queue.getJobState(id))),
    ping: (timeoutMs) =>
      withDeadline(tryToWrite(producer, `${prefix}:ready`), timeoutMs, `No answer from Redis within ${timeoutMs} ms`),
    // Not CONFIG, which hosts of Redis refuse.
    evictionPolicy: async () => /^maxmemory_policy:(\S+)/m.exec(await producer.info('memory'))?.[1],
    async close() {
      await Promise.all([quitRedis(producer), quitRedis(worker)]);
    },
  };
}

/**
 * Redis's errors for a wrong user or password, a missing one, and a database that does not exist, where the client
 * would go on in database 0.
 */
const REFUSED_LOGIN = /^(WRONGPASS|NOAUTH)\b|^ERR (DB index is out of range|SELECT is not allowed)/;

/** Throws if Redis refuses the login: that does not pass by itself. */
async function firstConnection(client: Redis): Promise<void> {
  let refusal: Error | undefined;
  const refused = new Promise<void>((resolve) => {
    client.on('error', (error: Error) => {
      if (!REFUSED_LOGIN.test(error.message)) return;
      refusal = new Error(`REDIS_URL leads to a Redis that refuses it: ${error.message.replace(/\.?$/, '.')}`);
      resolve();
    });
  });
  await awaitAtStart(Promise.race([connected(client), refused]), () => undefined);
  if (refusal) throw refusal;
}

/** Not PING: a replica, or a Redis with full memory or disk, answers it but takes no jobs. */
async function tryToWrite(client: Redis, key: string): Promise<void> {
  try {
    await client.set(key, '1', 'PX', KEPT_MS);
  } catch (error) {
    // Redis's own errors begin with a word in capitals: OOM, READONLY, MISCONF, NOPERM.
    const [why] = (error instanceof Error && /^[A-Z]+(?= )/.exec(error.message)) || [];
    throw why === undefined ? error : new RefusesWritesError(why, error);
  }
}
