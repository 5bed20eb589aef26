import type { Database } from '../db/database.ts';
import type { BusReceiver, BusTransport } from './batching-bus.ts';

const CHANNEL = 'drover_bus';
/** Postgres takes less than 8000 bytes. */
const MAX_PAYLOAD_BYTES = 7900;

/** One channel for all runs, on the listening connection of the process; a batch is one statement, outside of any commit. */
export async function openPostgresTransport(database: Database, receiver: BusReceiver): Promise<BusTransport> {
  const stop = await database.listen(CHANNEL, receiver.onPayload, receiver.onGap);
  return {
    maxBytes: MAX_PAYLOAD_BYTES,
    async send(payloads) {
      await database.call({
        name: 'bus_send',
        text: 'select pg_notify($1, payload) from unnest($2::text[]) payload',
        values: [CHANNEL, payloads],
      });
    },
    close: stop,
  };
}
