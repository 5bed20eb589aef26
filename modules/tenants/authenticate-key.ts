import { LRUCache } from 'lru-cache';
import { hasScope } from '../../core/scopes.ts';
import type { Caller } from '../../core/caller.ts';
import { sha256 } from '../../core/ids.ts';
import { quotasOf } from '../../core/rate-limits.ts';
import { findKeyByHash, findKeyById } from '../../db/api-keys.ts';
import type { KeyOwner } from '../../db/api-keys.ts';
import type { Database, Tx } from '../../db/database.ts';
import { coalesced } from '../../lib/coalesce.ts';
import { DEFAULT_TENANT_ID } from './bootstrap.ts';

export interface Authenticator {
  /** The owner of a valid key; undefined if it is unknown, expired or revoked. */
  byKey(key: string): Promise<Caller | undefined>;
  /** Like `byKey`, for the id of a key that was presented before. */
  byKeyId(id: string): Promise<Caller | undefined>;
  /** Drops a key from the cache, so that its revocation takes effect at once in this process. */
  forget(keyId: string): void;
  /** Drops all keys of a tenant, whose quotas have changed. */
  forgetTenant(tenantId: string): void;
}

/** The key in an `Authorization` header; undefined if it is not `Bearer <key>`. */
export function keyIn(header: string): string | undefined {
  return /^Bearer +([\x21-\x7e]{1,1000})$/i.exec(header)?.[1];
}

/** How long other processes still accept a revoked key, and reject one that was presented before it was made. */
const CACHE_MS = 5000;
const MAX_CACHED = 10_000;

/** A key's owner, and until when the key is valid, by `now`. */
interface Found {
  owner: KeyOwner;
  untilMs: number;
}

interface Look {
  name: string;
  query: (tx: Tx) => Promise<KeyOwner | undefined>;
}

/**
 * Finds owners of keys, and caches them for up to 5 s. Unknown keys are cached for the same time, in a separate cache,
 * so that invalid keys cannot evict valid ones. Concurrent requests with one key share one query. The database says how
 * long a key is valid; `now` is a monotonic time in ms.
 */
export function createAuthenticator(db: Database, now: () => number = () => performance.now()): Authenticator {
  const bounds = { max: MAX_CACHED, ttl: CACHE_MS, ttlResolution: 0, perf: { now } };
  const cache = new LRUCache<string, Found>(bounds);
  const unknown = new LRUCache<string, true>(bounds);
  /** How often entries were dropped: a result that was being read then is not cached. */
  let forgotten = 0;
  const look = async ({ name, query }: Look): Promise<Found | undefined> => {
    const [askedAtMs, before] = [now(), forgotten];
    const owner = await db.asMaintenance(query);
    const found = owner && { owner, untilMs: askedAtMs + (owner.remaining_ms ?? Infinity) };
    if (!found) unknown.set(name, true);
    else if (forgotten === before) cache.set(name, found);
    return found;
  };
  const lookTogether = coalesced(([asked]: readonly [Look, ...Look[]]) => look(asked));
  const find = async (name: string, query: Look['query']) => {
    const cached = cache.get(name);
    if (cached) return cached;
    return unknown.has(name) ? undefined : lookTogether(name, { name, query });
  };
  const forgetWhere = (isMeant: (owner: KeyOwner) => boolean) => {
    forgotten += 1;
    for (const [name, { owner }] of Array.from(cache.entries())) if (isMeant(owner)) cache.delete(name);
  };
  return {
    async byKey(key) {
      const hash = sha256(key);
      return callerOf(await find(`hash:${hash.toString('hex')}`, (tx) => findKeyByHash(tx, hash)), now());
    },
    async byKeyId(id) {
      return callerOf(await find(`id:${id}`, (tx) => findKeyById(tx, id)), now());
    },
    forget: (keyId) => forgetWhere(({ id }) => id === keyId),
    forgetTenant: (tenantId) => forgetWhere((owner) => owner.tenant_id === tenantId),
  };
}

function callerOf(found: Found | undefined, now: number): Caller | undefined {
  if (!found || found.owner.revoked_at !== null || found.untilMs <= now) return undefined;
  const { owner } = found;
  const isDefault = owner.tenant_id === DEFAULT_TENANT_ID;
  return {
    tenantId: owner.tenant_id,
    workspaceId: owner.default_workspace_id,
    boundWorkspaceId: owner.workspace_id ?? undefined,
    keyId: owner.id,
    scopes: owner.scopes,
    quotas: quotasOf({ planTier: owner.plan_tier, isDefault, settings: owner.rate_limits ?? {} }),
    ...(found.untilMs !== Infinity && { keyUntilMs: found.untilMs }),
    isOperator: isDefault && owner.workspace_id === null && hasScope(owner.scopes, 'admin'),
  };
}
