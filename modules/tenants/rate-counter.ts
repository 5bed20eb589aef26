/**
 * Counts requests within windows of time for all API processes together: in Redis, in Postgres, or in the one process of
 * embedded mode. Where the store is away each process counts for itself: limits are then wider, and nobody is turned away.
 */
import { RateLimiterMemory, RateLimiterRedis, type RateLimiterAbstract } from 'rate-limiter-flexible';
import { LRUCache } from 'lru-cache';
import type { Config } from '../../config.ts';
import type { Database } from '../../db/database.ts';
import { addToRateCount } from '../../db/rate-counts.ts';
import { openRedis } from '../../lib/open-redis.ts';
import { restAfterFailure, type RestAfterFailure } from '../../lib/rest-after-failure.ts';

interface Counted {
  /** Whose requests, and of which kind. */
  name: string;
  windowSeconds: number;
  /** Beyond which it is refused. */
  quota: number;
}

interface Count {
  /** With this one. */
  used: number;
  /** Until the window ends. */
  resetMs: number;
}

export interface RateCounter {
  /** Counts one more. */
  add(counted: Counted): Promise<Count>;
  close(): Promise<void>;
}

type Store = RateCounter;

interface CounterSettings extends Pick<Config, 'mode' | 'redisUrl' | 'queuePrefix'> {
  db: Database;
  /** Told when the store fails. */
  onError: (error: unknown) => void;
  /**
   * How long a store that has failed is left alone, in milliseconds: each request would else wait for one that does not
   * answer. One whose connection broke is asked again as soon as there is another.
   */
  restMs?: number;
}

/** Opens the counter of the mode; an unreachable Redis does not fail it. */
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

/** Who has had all is refused until the window ends without asking the store again: a flood ends here. */
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

/** What a tenant may ask for can change: the library counts, and what the count means is decided elsewhere. */
const MOST = 2 ** 31;

/** A limiter of the library for each length of window. */
function storeOf(open: (windowSeconds: number) => RateLimiterAbstract, close: () => Promise<void>): Store {
  const limiters = new Map<number, RateLimiterAbstract>();
  return {
    async add({ name, windowSeconds }) {
      const limiter = limiters.get(windowSeconds) ?? open(windowSeconds);
      limiters.set(windowSeconds, limiter);
      const { consumedPoints, msBeforeNext } = await limiter.consume(name);
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
  // Not the library's: that one takes the time from each process, whose clocks can differ by more than a window.
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
