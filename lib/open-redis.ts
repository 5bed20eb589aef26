/** A connection to Redis for what may fail: it starts without Redis too, and no command waits for one that is away. */
import { Redis } from 'ioredis';
import { withDeadline } from './deadline.ts';

const FIRST_CONNECTION_MS = 2000;
const CLOSE_TIMEOUT_MS = 1000;

interface OpenRedis {
  client: Redis;
  /** What a command answers, or an error where it does not in time. */
  inTime: <T>(answer: Promise<T>) => Promise<T>;
  close: () => Promise<void>;
}

/** Waits two seconds at most for the first connection. `onError` is told of each that is lost. */
export async function openRedis(
  url: string,
  { commandTimeoutMs, onError }: { commandTimeoutMs: number; onError: (error: unknown) => void },
): Promise<OpenRedis> {
  const client = new Redis(url, {
    connectTimeout: 5000,
    keepAlive: 10_000,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    retryStrategy: (attempt) => Math.min(50 * 2 ** Math.min(attempt, 6), 2000),
  });
  client.on('error', onError);
  const ready = new Promise<void>((resolve) => {
    client.once('ready', resolve);
  });
  await withDeadline(ready, FIRST_CONNECTION_MS, 'Redis is not there yet').catch(onError);
  const close = async () => {
    if (client.status === 'ready') {
      await withDeadline(client.quit(), CLOSE_TIMEOUT_MS, 'Redis did not say goodbye').catch(() => undefined);
    }
    client.disconnect();
  };
  // Not the client's own time limit, by which an answer is late that a busy process has only not looked at yet.
  const inTime = <T>(answer: Promise<T>) => withDeadline(answer, commandTimeoutMs, 'Redis did not answer');
  return { client, inTime, close };
}
