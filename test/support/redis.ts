import { Redis } from 'ioredis';
import { TEST_REDIS_URL } from './modes.ts';

/** Breaks every other connection to the Redis of the tests. */
export async function disconnectRedis(): Promise<void> {
  const client = new Redis(TEST_REDIS_URL ?? '', { lazyConnect: true, maxRetriesPerRequest: 0 });
  await client.connect();
  try {
    await client.call('client', 'kill', 'type', 'normal', 'skipme', 'yes');
    await client.call('client', 'kill', 'type', 'pubsub', 'skipme', 'yes');
  } finally {
    client.disconnect();
  }
}
