/** Connections to Redis that open even while it is away, and reconnect by themselves. */
import { Redis, type RedisOptions } from 'ioredis';
import { withDeadline } from './deadline.ts';

const FIRST_CONNECTION_MS = 2000;
const CLOSE_TIMEOUT_MS = 1000;
/** A connection on which an answer is due and nothing comes for so long is replaced: its Redis may hang and never close it. */
const SILENCE_MS = 10_000;

/** Makes a client that connects, replaces a connection that falls silent, and reports each lost one to `onError`. */
export function connectRedis(
  url: string,
  onError: (error: Error) => void,
  options: Omit<RedisOptions, 'replyMapping'>,
): Redis {
  const client = new Redis(url, {
    connectTimeout: 5000,
    keepAlive: 10_000,
    // A connection without a command under way may be silent.
    socketTimeout: SILENCE_MS,
    retryStrategy: (attempt) => reconnectAfterMs(attempt, Math.random()),
    ...options,
  });
  client.on('error', onError);
  return client;
}

/**
 * 0.1 s up to 1.6 s, plus or minus a quarter, so that a fleet does not reconnect all at once. `chance` is at least 0
 * and below 1.
 */
export function reconnectAfterMs(attempt: number, chance: number): number {
  return Math.round(50 * 2 ** Math.min(attempt, 5) * (0.75 + chance / 2));
}

/** Resolves with the first connection. */
export function connected(client: Redis): Promise<void> {
  return new Promise((resolve) => {
    client.once('ready', resolve);
  });
}

/** Waits at most two seconds for the first connection, so that a call right after the start does not fail. */
export async function awaitAtStart(ready: Promise<unknown>, onLate: (error: Error) => void): Promise<void> {
  await withDeadline(ready, FIRST_CONNECTION_MS, 'Redis is not there yet').catch(onLate);
}

export async function quitRedis(client: Redis): Promise<void> {
  if (client.status === 'ready')
    await withDeadline(client.quit(), CLOSE_TIMEOUT_MS, 'Redis did not say goodbye').catch(() => undefined);
  client.disconnect();
}

interface OpenRedis {
  client: Redis;
  /** Resolves as the command does, or rejects if it takes too long. */
  inTime: <T>(answer: Promise<T>) => Promise<T>;
  close: () => Promise<void>;
}

/** A connection for optional work: no command waits for a Redis that is away. */
export async function openRedis(
  url: string,
  { commandTimeoutMs, onError }: { commandTimeoutMs: number; onError: (error: unknown) => void },
): Promise<OpenRedis> {
  const client = connectRedis(url, onError, { enableOfflineQueue: false, maxRetriesPerRequest: 0 });
  await awaitAtStart(connected(client), onError);
  // Not the client's own time limit, which also rejects answers that a busy process has received but not read yet.
  const inTime = <T>(answer: Promise<T>) => withDeadline(answer, commandTimeoutMs, 'Redis did not answer');
  return { client, inTime, close: () => quitRedis(client) };
}
