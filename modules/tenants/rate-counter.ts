/**
 * Counts requests per time window across all API processes: in Redis, in Postgres, or in embedded mode's one process.
 * If the store is away, each process counts alone: limits become wider, and nobody is rejected for that.
 */
import { RateLimiterMemory, RateLimiterRedis, type RateLimiterAbstract } from 'rate-limiter-flexible';
import { LRUCache } from 'lru-cache';
import type { Config } from '../../config.ts';
import type { Database } from '../../db/database.ts';
import { addToRateCount } from '../../db/rate-counts.ts';
import { openRedis } from '../../lib/open-redis.ts';
import { restAfterFailure, type RestAfterFailure } from '../../lib/rest-after-failure.ts';

interface Counted {
  /** The requester and the kind of request. */
  name: string;
  windowSeconds: number;
  /** The count beyond which requests are refused. */
  quota: number;
  /** How many requests came together; 1 if absent. */
  times?: number | undefined;
}

interface Count {
  /** The count, including these requests. */
  used: number;
  /** Milliseconds until the window ends. */
  resetMs: number;
}

export interface RateCounter {
  /** Counts one more request, or several. */
  add(counted: Counted): Promise<Count>;
  close(): Promise<void>;
}

type Store = RateCounter;

interface CounterSettings extends Pick<Config, 'mode' | 'redisUrl' | 'queuePrefix'> {
  db: Database;
  /** Called when the store fails. */
  onError: (error: unknown) => void;
  /**
   * How long a failed store is skipped, in ms: otherwise each request would wait for it. A store whose connection broke
   * is used again as soon as it reconnects.
   */
  restMs?: number;
}

/** Opens the mode's counter; an unreachable Redis is no error. */
export async function openRateCounter(settings: CounterSettings): Promise<RateCounter> {
  const own = openMemoryStore();
  if (settings.mode === 'embedded') return own;
  const rest = restAfterFailure(settings.onError, settings.restMs);
  const { redisUrl } = settings;
  const shared =
    redisUrl === undefined ? openPostgresStore(settings.db) : await openRedisStore(redisUrl, settings, rest);
  return rememberRefused(insure({ shared, own, rest }));
}

const MOST_REMEMBERED = 10_000;

/** Refuses those beyond their quota until the window ends without asking the store: a flood ends here. */
function rememberRefused(store: Store): Store {
  const refused = new LRUCache<string, number>({ max: MOST_REMEMBERED });
  return {
    async add(counted) {
      const key = `${counted.quota} ${counted.name}`;
      const known = refused.get(key);
      if (known !== undefined) return { used: known, resetMs: refused.getRemainingTTL(key) };
      const { used, resetMs } = await store.add(counted);
      if (used > counted.quota && resetMs > 0) refused.set(key, used, { ttl: resetMs });
      return { used, resetMs };
    },
    close: () => store.close(),
  };
}

function insure({ shared, own, rest }: { shared: Store; own: Store; rest: RestAfterFailure }): Store {
  return {
    add: async (counted) => (await rest.attempt(() => shared.add(counted))) ?? own.add(counted),
    close: () => shared.close(),
  };
}

/** No limit of the library's own: quotas can change, and are applied elsewhere. */
const MOST = 2 ** 31;

/** Keeps one limiter of the library per window length. */
function storeOf(open: (windowSeconds: number) => RateLimiterAbstract, close: () => Promise<void>): Store {
  const limiters = new Map<number, RateLimiterAbstract>();
  return {
    async add({ name, windowSeconds, times = 1 }) {
      const limiter = limiters.get(windowSeconds) ?? open(windowSeconds);
      limiters.set(windowSeconds, limiter);
      const { consumedPoints, msBeforeNext } = await limiter.consume(name, times);
      return { used: consumedPoints, resetMs: msBeforeNext };
    },
    close,
  };
}

function openMemoryStore(): Store {
  return storeOf(
    (duration) => new RateLimiterMemory({ points: MOST, duration }),
    async () => undefined,
  );
}

function openPostgresStore(db: Database): Store {
  // Not the library's, which uses each process's clock: they can differ by more than a window.
  return { add: (counted) => addToRateCount(db, counted), close: async () => undefined };
}

const COMMAND_TIMEOUT_MS = 2000;

async function openRedisStore(
  url: string,
  { queuePrefix, onError }: CounterSettings,
  rest: RestAfterFailure,
): Promise<Store> {
  const { client, inTime, close } = await openRedis(url, { commandTimeoutMs: COMMAND_TIMEOUT_MS, onError });
  client.on('ready', rest.end);
  const open = (duration: number) =>
    new RateLimiterRedis({ storeClient: client, keyPrefix: `${queuePrefix}:rate`, points: MOST, duration });
  const store = storeOf(open, close);
  return { ...store, add: (counted) => inTime(store.add(counted)) };
}
