import type { Database } from '../db/database.ts';
import { createBus, type BusReceiver, type BusTransport } from './batching-bus.ts';
import type { Bus } from './bus.ts';
import { openPostgresTransport } from './postgres-transport.ts';
import { openRedisTransport } from './redis-transport.ts';

/** What the bus needs of the configuration. */
export interface BusSettings {
  readonly databaseUrl: string | undefined;
  readonly redisUrl: string | undefined;
  readonly queuePrefix: string;
}

/** Opens the bus of the mode: in this process, by NOTIFY, or by Redis. `onError` is told what was lost, and why. */
export async function openBus(
  settings: BusSettings,
  database: Database,
  onError: (error: Error) => void,
): Promise<Bus> {
  return createBus((receiver) => openTransport(settings, database, receiver), onError);
}

function openTransport(settings: BusSettings, database: Database, receiver: BusReceiver): Promise<BusTransport> {
  if (settings.redisUrl !== undefined) {
    return openRedisTransport({ url: settings.redisUrl, channel: `${settings.queuePrefix}:bus` }, receiver);
  }
  if (settings.databaseUrl !== undefined) return openPostgresTransport(database, receiver);
  return Promise.resolve({
    maxBytes: Number.POSITIVE_INFINITY,
    send: async (parcels) => parcels.forEach(({ payload }) => receiver.onPayload(payload)),
    close: async () => undefined,
  });
}
