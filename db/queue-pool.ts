import { EventEmitter } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import type { PgNotification, PgPool, PgPoolClient, PgQueryResult } from 'bullmq';
import { isDatabaseAway } from './database-errors.ts';
import type { Database } from './database.ts';

type RunQuery = (text: string, values: readonly unknown[]) => Promise<PgQueryResult>;

/** BullMQ's worker retries at once after errors other than ECONNREFUSED, which is a busy loop while a server starts. */
const AWAY_PAUSE_MS = 200;

/** A shared lock on the queue's name, held until its session ends or earlier. `queue_workers` finds its holders. */
export const ANNOUNCE_WORKER = `select pg_try_advisory_lock_shared(hashtext('drover:worker'), hashtext($1))`;
export const WITHDRAW_WORKER = `select pg_advisory_unlock_shared(hashtext('drover:worker'), hashtext($1))`;

/**
 * A substitute for the `pg.Pool` that BullMQ expects. Queries hold a connection while they run. Clients kept for LISTEN are
 * not real: all share the database's single listening connection.
 */
export function createQueuePool(run: RunQuery, database: Pick<Database, 'listen' | 'announceWorker'>): PgPool {
  const runPaced: RunQuery = async (text, values) => {
    try {
      return await run(text, values);
    } catch (error) {
      if (isDatabaseAway(error)) await pause(AWAY_PAUSE_MS);
      throw error;
    }
  };
  const events = new EventEmitter().setMaxListeners(0);
  return Object.assign(events, {
    /** BullMQ asks whether a silent loss of the listening connection would be noticed. It would (keepAlive). */
    options: { keepAlive: true },
    query: (text: string, values: readonly unknown[] = []) => runPaced(text, values),
    connect: async () => createListenClient(runPaced, database),
    end: async () => undefined,
  });
}

/** Not a valid name of a channel. */
const WORKER = 'worker ';

function createListenClient(run: RunQuery, database: Pick<Database, 'listen' | 'announceWorker'>): PgPoolClient {
  const events = new EventEmitter().setMaxListeners(0);
  /** Functions to stop each subscription, once it has begun. */
  const stops = new Map<string, Promise<() => Promise<void>>>();
  const empty = { rows: [], rowCount: 0 };

  const begin = async (what: string, start: () => Promise<() => Promise<void>>) => {
    const begun = stops.get(what) ?? start();
    stops.set(what, begun);
    try {
      await begun;
    } catch (error) {
      if (stops.get(what) === begun) stops.delete(what);
      throw error;
    }
  };
  const listen = (channel: string) => {
    const onPayload = (payload: string) => {
      events.emit('notification', { channel, payload } satisfies PgNotification);
    };
    // BullMQ takes an error for a lost connection: it drops this client, LISTENs on another, and looks for jobs.
    const onReconnect = () => {
      if (events.listenerCount('error') > 0) events.emit('error', new Error('Connection terminated: LISTEN had a gap'));
    };
    return begin(channel, () => database.listen(channel, onPayload, onReconnect));
  };
  const announce = (queue: string) => begin(WORKER, () => database.announceWorker(queue));
  const release = () => {
    // Subscriptions that have not begun yet are stopped once they have.
    for (const begun of stops.values()) begun.then((stop) => stop()).catch(() => undefined);
    stops.clear();
  };

  return Object.assign(events, {
    async query(text: string, values: readonly unknown[] = []) {
      const statement = text.replaceAll(/^\s*--.*$/gm, '').trim();
      const channel = /^listen\s+"?([^";\s]+)"?;?$/i.exec(statement)?.[1];
      if (channel !== undefined) {
        await listen(channel);
        return empty;
      }
      // The connection name by which BullMQ lists its workers; a shared connection cannot have the names of all.
      if (statement.includes(`set_config('application_name'`)) {
        await announce(String(values[0]));
        return empty;
      }
      return await run(text, values);
    },
    release,
  });
}
