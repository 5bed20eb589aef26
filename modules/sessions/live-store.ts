/** Stores live state between requests: in Redis for all processes, or without Redis in this process. It may lose anything at any time. */
import { LRUCache } from 'lru-cache';
import type { Config } from '../../config.ts';
import { LIMITS } from '../../core/limits.ts';
import { openRedis } from '../../lib/open-redis.ts';
import { restAfterFailure } from '../../lib/rest-after-failure.ts';

export interface LiveStore {
  /** Undefined if it is missing or unavailable. */
  get(name: string): Promise<string | undefined>;
  /** Keeps the text for at most `LIMITS.liveStateSeconds`; discards it if too large. */
  set(name: string, text: string): Promise<void>;
  delete(name: string): Promise<void>;
  close(): Promise<void>;
}

interface StoreSettings extends Pick<Config, 'redisUrl' | 'queuePrefix'> {
  /** Called when Redis fails. */
  onError: (error: unknown) => void;
}

/** The database can answer instead, so nobody waits long for Redis. */
const COMMAND_TIMEOUT_MS = 250;
/** Total size of texts kept in this process, in characters. */
const MOST_CHARS = 16 * 1024 * 1024;

/** Opens the store of the mode; works even if Redis is unreachable. */
export async function openLiveStore(settings: StoreSettings): Promise<LiveStore> {
  const store = settings.redisUrl === undefined ? openOwnStore() : await openSharedStore(settings.redisUrl, settings);
  return {
    ...store,
    set: async (name, text) => (text.length > LIMITS.liveStateChars ? undefined : store.set(name, text)),
  };
}

function openOwnStore(): LiveStore {
  const texts = new LRUCache<string, string>({
    maxSize: MOST_CHARS,
    sizeCalculation: (text) => text.length + 100,
    ttl: LIMITS.liveStateSeconds * 1000,
  });
  return {
    get: async (name) => texts.get(name),
    set: async (name, text) => void texts.set(name, text),
    delete: async (name) => void texts.delete(name),
    close: async () => texts.clear(),
  };
}

async function openSharedStore(url: string, { queuePrefix, onError }: StoreSettings): Promise<LiveStore> {
  const { client, inTime, close } = await openRedis(url, { commandTimeoutMs: COMMAND_TIMEOUT_MS, onError });
  const rest = restAfterFailure(onError);
  const attempt = <T>(act: () => Promise<T>) => rest.attempt(() => inTime(act()));
  const keyOf = (name: string) => `${queuePrefix}:live:${name}`;
  return {
    get: async (name) => (await attempt(() => client.get(keyOf(name)))) ?? undefined,
    set: async (name, text) => void (await attempt(() => client.set(keyOf(name), text, 'EX', LIMITS.liveStateSeconds))),
    delete: async (name) => void (await attempt(() => client.del(keyOf(name)))),
    close,
  };
}
