import { LRUCache } from 'lru-cache';
import { hasScope } from '../../core/scopes.ts';
import type { Caller } from '../../core/caller.ts';
import { sha256 } from '../../core/ids.ts';
import { quotasOf } from '../../core/rate-limits.ts';
import { findKeyByHash, findKeyById } from '../../db/api-keys.ts';
import type { KeyOwner } from '../../db/api-keys.ts';
import type { Database, Tx } from '../../db/database.ts';
import { DEFAULT_TENANT_ID } from './bootstrap.ts';

export interface Authenticator {
  /** The owner of a valid key; undefined if it is unknown, expired or revoked. */
  byKey(key: string): Promise<Caller | undefined>;
  /** The same for a key that was shown before and is known by its id. */
  byKeyId(id: string): Promise<Caller | undefined>;
  /** Forgets what it has remembered of a key, so that its revocation holds at once in this process. */
  forget(keyId: string): void;
  /** The same for all keys of a tenant, whose quotas are others now. */
  forgetTenant(tenantId: string): void;
}

/** A revoked key works in other processes for so long. */
const CACHE_MS = 5000;
const MAX_CACHED = 10_000;

/** Finds the owners of keys, and remembers those it has found for up to 5 s. `now` gives ms since the epoch. */
export function createAuthenticator(db: Database, now: () => number = Date.now): Authenticator {
  const cache = new LRUCache<string, KeyOwner>({ max: MAX_CACHED, ttl: CACHE_MS, ttlResolution: 0, perf: { now } });
  const find = async (name: string, query: (tx: Tx) => Promise<KeyOwner | undefined>) => {
    const cached = cache.get(name);
    if (cached) return cached;
    const owner = await db.asMaintenance(query);
    if (owner) cache.set(name, owner);
    return owner;
  };
  const forgetWhere = (isMeant: (owner: KeyOwner) => boolean) => {
    for (const [name, owner] of Array.from(cache.entries())) if (isMeant(owner)) cache.delete(name);
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

function callerOf(owner: KeyOwner | undefined, now: number): Caller | undefined {
  if (!owner || owner.revoked_at !== null) return undefined;
  if (owner.expires_at !== null && owner.expires_at.getTime() <= now) return undefined;
  const isDefault = owner.tenant_id === DEFAULT_TENANT_ID;
  return {
    tenantId: owner.tenant_id,
    workspaceId: owner.default_workspace_id,
    boundWorkspaceId: owner.workspace_id ?? undefined,
    keyId: owner.id,
    scopes: owner.scopes,
    quotas: quotasOf({ planTier: owner.plan_tier, isDefault, settings: owner.rate_limits ?? {} }),
    isOperator: isDefault && owner.workspace_id === null && hasScope(owner.scopes, 'admin'),
  };
}
