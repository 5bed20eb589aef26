import type { Database } from '../db/database.ts';
import { createBus, type BusReceiver, type BusTransport } from './batching-bus.ts';
import type { Bus } from './bus.ts';
import { openPostgresTransport } from './postgres-transport.ts';
import { openRedisTransport } from './redis-transport.ts';

/** The settings that the bus needs. */
interface BusSettings {
  readonly databaseUrl: string | undefined;
  readonly redisUrl: string | undefined;
  readonly queuePrefix: string;
}

/** Opens the mode's bus: in this process, by NOTIFY, or by Redis. Reports what was lost, and why, to `onError`. */
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
