import type { Database } from '../db/database.ts';
import type { BusReceiver, BusTransport } from './batching-bus.ts';
import { ALL } from './payloads.ts';

const CHANNEL = 'drover_bus';
/** Postgres allows less than 8000 bytes. */
const MAX_PAYLOAD_BYTES = 7900;

const channelOf = (address: string) => (address === ALL ? CHANNEL : `${CHANNEL}_${address}`);

/**
 * NOTIFY on a channel for all processes and one for each, on the process's listening connection. A batch is one
 * statement, outside of any commit.
 */
export async function openPostgresTransport(database: Database, receiver: BusReceiver): Promise<BusTransport> {
  const stopOwn = await database.listen(channelOf(receiver.address), receiver.onPayload, () => undefined);
  const stop = await database.listen(channelOf(ALL), receiver.onPayload, receiver.onGap);
  return {
    maxBytes: MAX_PAYLOAD_BYTES,
    async send(parcels) {
      await database.call({
        name: 'bus_send',
        text: 'select pg_notify(channel, payload) from unnest($1::text[], $2::text[]) as parcels (channel, payload)',
        values: [parcels.map(({ to }) => channelOf(to)), parcels.map(({ payload }) => payload)],
      });
    },
    async close() {
      await Promise.all([stopOwn(), stop()]);
    },
  };
}
