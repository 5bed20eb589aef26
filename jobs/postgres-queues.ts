import { assertSchemaCompatibility, PostgresConnection, PostgresQueueBackend } from 'bullmq';
import type { ConnectionOptions, createRedisBackend, PgPool } from 'bullmq';
import type { Database } from '../db/database.ts';
import type { QueueTransport } from './queue-transport.ts';

/** Placeholder: the factories hold the connection, but BullMQ demands one. */
const UNUSED_CONNECTION: ConnectionOptions = {};

/**
 * BullMQ on the database. `soleProcess`: no other process uses the database, so locks of active jobs are left over.
 * They are voided, and the first stalled check gives those jobs to the new workers.
 * @throws BullMQ's SchemaMigrationRequiredError if the migrations have not run.
 */
export async function openPostgresQueues(database: Database, soleProcess: boolean): Promise<QueueTransport> {
  const pool = database.queueConnection() as PgPool;
  const client = await pool.connect();
  try {
    await assertSchemaCompatibility(client);
    if (soleProcess) for (const statement of VOID_LOCKS) await client.query(statement);
  } finally {
    client.release();
  }
  const factory = (name: string, options: { name?: string }, kind: Parameters<typeof createRedisBackend>[2] = {}) => {
    const workerName = options.name === undefined ? '' : `:w:${options.name}`;
    const listenName = kind.withBlockingConnection === true ? `${name}${workerName}` : undefined;
    const connection = new CheckedConnection(pool);
    return new PostgresQueueBackend(connection, name, { ...options, connection: pool }, true, listenName);
  };
  return {
    kind: 'postgres',
    factory: factory as unknown as typeof createRedisBackend,
    producerConnection: UNUSED_CONNECTION,
    workerConnection: UNUSED_CONNECTION,
    async states({ name }, ids) {
      const { rows } = await pool.query<{ id: string; state: string }>(STATES, [name, ids]);
      const states = new Map(rows.map(({ id, state }) => [id, state]));
      return ids.map((id) => states.get(id) ?? 'unknown');
    },
    ping: (timeoutMs) => database.ping(timeoutMs),
    evictionPolicy: async () => undefined,
    close: async () => undefined,
  };
}

/** The schema was checked on opening. BullMQ's own check would break its queue for ever if it failed once. */
class CheckedConnection extends PostgresConnection {
  override async waitUntilReady(): Promise<void> {}
}

/** BullMQ's state of a job, for many at once. */
const STATES = 'select id, state from job where queue = $1 and id = any($2::text[])';

/** BullMQ frees a job at the second stalled check, one an interval: this stands for the first. */
const VOID_LOCKS = [
  `update job set locked_until_ms = 0, stalled_marked = true where state = 'active'`,
  `delete from meta where field = 'stalled-check'`,
];
