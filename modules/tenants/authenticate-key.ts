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
  /** The same for a key that was shown before and is known by its id. */
  byKeyId(id: string): Promise<Caller | undefined>;
  /** Forgets what it has remembered of a key, so that its revocation holds at once in this process. */
  forget(keyId: string): void;
  /** The same for all keys of a tenant, whose quotas are others now. */
  forgetTenant(tenantId: string): void;
}

/** The key of an `Authorization` header; undefined where it is not `Bearer <key>`. */
export function keyIn(header: string): string | undefined {
  return /^Bearer +([\x21-\x7e]{1,1000})$/i.exec(header)?.[1];
}

/** A revoked key works in other processes for so long, and one that was shown before it was made is unknown there. */
const CACHE_MS = 5000;
const MAX_CACHED = 10_000;

/** An owner, and until when its key is valid, by `now`. */
interface Found {
  owner: KeyOwner;
  untilMs: number;
}

interface Look {
  name: string;
  query: (tx: Tx) => Promise<KeyOwner | undefined>;
}

/**
 * Finds the owners of keys, and remembers those it has found for up to 5 s. So long it remembers, too, which keys are unknown,
 * apart from the others, so that nobody is forgotten for strangers: who keeps sending one costs the database one look, and so
 * do all who come with one at the same time. The database says how long a key is valid; `now` gives ms that pass, since whenever.
 */
export function createAuthenticator(db: Database, now: () => number = () => performance.now()): Authenticator {
  const bounds = { max: MAX_CACHED, ttl: CACHE_MS, ttlResolution: 0, perf: { now } };
  const cache = new LRUCache<string, Found>(bounds);
  const unknown = new LRUCache<string, true>(bounds);
  /** How often something was to be forgotten: what was being read then is not remembered. */
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
    isOperator: isDefault && owner.workspace_id === null && hasScope(owner.scopes, 'admin'),
  };
}
