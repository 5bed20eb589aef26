import { Redis, type RedisOptions } from 'ioredis';
import { withDeadline } from '../lib/deadline.ts';
import type { BusReceiver, BusTransport } from './batching-bus.ts';
import { ALL } from './payloads.ts';

const MAX_PAYLOAD_BYTES = 256 * 1024;
const FIRST_CONNECTION_MS = 2000;
const CLOSE_TIMEOUT_MS = 1000;
/** Between two attempts to subscribe on one connection. */
const AGAIN_MS = 1000;

const COMMON = {
  connectTimeout: 5000,
  commandTimeout: 5000,
  keepAlive: 10_000,
  enableOfflineQueue: false,
  maxRetriesPerRequest: 0,
  retryStrategy: (attempt: number) => Math.min(50 * 2 ** Math.min(attempt, 6), 2000),
} satisfies RedisOptions;

/** Redis pub/sub, a channel for all processes and one for each: a connection to send on, and one to receive on. Starts without Redis too. */
export async function openRedisTransport(
  place: { url: string; channel: string },
  receiver: BusReceiver,
): Promise<BusTransport> {
  const channelOf = (address: string) => (address === ALL ? place.channel : `${place.channel}:${address}`);
  const sender = new Redis(place.url, COMMON);
  const subscriber = new Redis(place.url, { ...COMMON, autoResubscribe: false });
  for (const client of [sender, subscriber]) client.on('error', (error: Error) => receiver.onError(error));

  subscriber.on('message', (_channel: string, payload: string) => receiver.onPayload(payload));
  // By hand, so that the gap is told when messages come again and not before.
  let attempts = 0;
  let again: NodeJS.Timeout | undefined;
  const subscribed = new Promise<void>((resolve) => {
    const subscribe = async () => {
      attempts += 1;
      const isFirst = attempts === 1;
      try {
        await subscriber.subscribe(channelOf(ALL), channelOf(receiver.address));
        resolve();
        if (!isFirst) receiver.onGap();
      } catch (error) {
        receiver.onError(error as Error);
        clearTimeout(again);
        // A connection that is lost meanwhile subscribes when it is ready again.
        again = setTimeout(() => void (subscriber.status === 'ready' && subscribe()), AGAIN_MS);
      }
    };
    subscriber.on('ready', () => void subscribe());
  });
  const sending = new Promise((resolve) => {
    sender.once('ready', resolve);
  });
  const both = Promise.all([subscribed, sending]);
  await withDeadline(both, FIRST_CONNECTION_MS, 'Redis is not there yet').catch(receiver.onError);

  return {
    maxBytes: MAX_PAYLOAD_BYTES,
    async send(parcels) {
      await Promise.all(parcels.map(({ to, payload }) => sender.publish(channelOf(to), payload)));
    },
    async close() {
      clearTimeout(again);
      for (const client of [sender, subscriber]) {
        if (client.status === 'ready') {
          await withDeadline(client.quit(), CLOSE_TIMEOUT_MS, 'Redis did not say goodbye').catch(() => undefined);
        }
        client.disconnect();
      }
    },
  };
}
