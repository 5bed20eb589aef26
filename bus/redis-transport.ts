import { awaitAtStart, connected, connectRedis, quitRedis } from '../lib/open-redis.ts';
import type { BusReceiver, BusTransport } from './batching-bus.ts';
import { ALL } from './payloads.ts';

const MAX_PAYLOAD_BYTES = 256 * 1024;
/** The delay between attempts to subscribe on one connection. */
const AGAIN_MS = 1000;
/** How often the subscriber asks for an answer: nothing else would show that its Redis has fallen silent. */
const PING_MS = 5000;

const OPTIONS = { commandTimeout: 5000, enableOfflineQueue: false, maxRetriesPerRequest: 0 };

/**
 * Redis pub/sub, with a channel for all processes and one for each, a connection to send and one to receive. Starts
 * without Redis, too.
 */
export async function openRedisTransport(
  place: { url: string; channel: string },
  receiver: BusReceiver,
): Promise<BusTransport> {
  const channelOf = (address: string) => (address === ALL ? place.channel : `${place.channel}:${address}`);
  const onError = (error: Error) => receiver.onError(error);
  const sender = connectRedis(place.url, onError, OPTIONS);
  const subscriber = connectRedis(place.url, onError, { ...OPTIONS, autoResubscribe: false });

  subscriber.on('message', (_channel: string, payload: string) => receiver.onPayload(payload));
  // Subscribes by hand, so that the gap is reported only once messages arrive again.
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
        // If the connection is lost meanwhile, `ready` subscribes again.
        again = setTimeout(() => void (subscriber.status === 'ready' && subscribe()), AGAIN_MS);
      }
    };
    subscriber.on('ready', () => void subscribe());
  });
  // A connection that does not answer is replaced by the client itself.
  const pings = setInterval(() => void subscriber.ping().catch(() => undefined), PING_MS);
  await awaitAtStart(Promise.all([subscribed, connected(sender)]), onError);

  return {
    maxBytes: MAX_PAYLOAD_BYTES,
    async send(parcels) {
      await Promise.all(parcels.map(({ to, payload }) => sender.publish(channelOf(to), payload)));
    },
    async close() {
      clearTimeout(again);
      clearInterval(pings);
      await Promise.all([quitRedis(sender), quitRedis(subscriber)]);
    },
  };
}
