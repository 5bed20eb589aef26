/** A worker of a queue that ends what it does on SIGTERM, closes, and then has nothing left that keeps the process. */
import { openQueueBackend } from '../../jobs/backend.ts';
import type { Database } from '../../db/database.ts';

const { REDIS_URL, QUEUE_PREFIX } = process.env as { REDIS_URL: string; QUEUE_PREFIX: string };
const settings = {
  mode: 'full',
  redisUrl: REDIS_URL,
  queuePrefix: QUEUE_PREFIX,
  leaseMs: 600,
  shutdownGraceMs: 0,
} as const;
// A queue on Redis asks no database.
const backend = await openQueueBackend(settings, undefined as unknown as Database, (error) =>
  console.log(error.message),
);

const told = new Promise<void>((resolve) => {
  process.once('SIGTERM', () => {
    resolve();
    void backend.close(1000);
  });
});
backend.worker('silent', async () => {
  console.log('at work');
  await told;
});
await backend.queue('silent').add('work', {});
