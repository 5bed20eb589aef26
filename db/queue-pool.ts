import { EventEmitter } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import type { PgNotification, PgPool, PgPoolClient, PgQueryResult } from 'bullmq';
import { isDatabaseAway } from './database-errors.ts';
import type { Database } from './database.ts';

type RunQuery = (text: string, values: readonly unknown[]) => Promise<PgQueryResult>;

/** BullMQ's worker tries again at once after an error that is not ECONNREFUSED: while a server starts, that is a hot loop. */
const AWAY_PAUSE_MS = 200;

/** A shared lock on the queue's name, which ends with its session at the latest. `queue_workers` finds who holds it. */
export const ANNOUNCE_WORKER = `select pg_try_advisory_lock_shared(hashtext('drover:worker'), hashtext($1))`;
export const WITHDRAW_WORKER = `select pg_advisory_unlock_shared(hashtext('drover:worker'), hashtext($1))`;

/**
 * What BullMQ takes for a `pg.Pool`. Its queries take a connection for as long as they run. The clients that it keeps
 * for LISTEN are not real: they share the database's one listening connection, however many workers there are.
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
    /** BullMQ asks whether a silent loss of the listening connection would be noticed; it would (keepAlive). */
    options: { keepAlive: true },
    query: (text: string, values: readonly unknown[] = []) => runPaced(text, values),
    connect: async () => createListenClient(runPaced, database),
    end: async () => undefined,
  });
}

/** No channel's name. */
const WORKER = 'worker ';

function createListenClient(run: RunQuery, database: Pick<Database, 'listen' | 'announceWorker'>): PgPoolClient {
  const events = new EventEmitter().setMaxListeners(0);
  /** What stops each, once it has begun. */
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
    // One that has not begun yet is stopped as soon as it has.
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
      // The name of a connection, by which BullMQ lists its workers: here they share one, which cannot have them all.
      if (statement.includes(`set_config('application_name'`)) {
        await announce(String(values[0]));
        return empty;
      }
      return await run(text, values);
    },
    release,
  });
}
