/** How often a tenant, a key, a user and a session may ask, and what an answer's headers say of it. */
import { sha256 } from './ids.ts';
import { LIMITS } from './limits.ts';

/** What an operator may set for a tenant in place of its tier's figures; null: no limit. */
export interface RateSettings {
  requests_per_minute?: number | null | undefined;
  /** Of each of its keys, within what the tenant has; without it a key may take all of that. */
  key_requests_per_minute?: number | null | undefined;
  chats_per_hour?: number | null | undefined;
  executes_per_minute?: number | null | undefined;
}

/** What holds for the requests of a key; null: no limit. */
export interface Quotas {
  requestsPerMinute: number | null;
  keyRequestsPerMinute: number | null;
  chatsPerHour: number | null;
  executesPerMinute: number | null;
}

/** One limit as a request meets it: so many within a window, which begins with the first. */
export interface Rate {
  /** Its name in headers and problems. */
  policy: 'tenant' | 'key' | 'chats' | 'executes';
  /** Whose requests are counted together. Ids and digests alone. */
  subject: string;
  quota: number;
  windowSeconds: number;
}

/** A rate with this request counted. */
interface RateState extends Rate {
  used: number;
  /** Until the window ends. */
  resetSeconds: number;
}

const TIERS = new Map<string, number>([
  ['free', LIMITS.freeRequestsPerMinute],
  ['standard', LIMITS.standardRequestsPerMinute],
  ['enterprise', LIMITS.enterpriseRequestsPerMinute],
]);

/** The quotas of a tenant: its settings', else its tier's. An unknown tier is `standard`; the default tenant's has no limit. */
export function quotasOf(tenant: { planTier: string; isDefault: boolean; settings: RateSettings }): Quotas {
  const { planTier, isDefault, settings } = tenant;
  const ofTier = isDefault ? null : (TIERS.get(planTier) ?? LIMITS.standardRequestsPerMinute);
  const set = (value: number | null | undefined, otherwise: number | null) => (value === undefined ? otherwise : value);
  return {
    requestsPerMinute: set(settings.requests_per_minute, ofTier),
    keyRequestsPerMinute: settings.key_requests_per_minute ?? null,
    chatsPerHour: set(settings.chats_per_hour, LIMITS.chatsPerHour),
    executesPerMinute: set(settings.executes_per_minute, LIMITS.executesPerMinute),
  };
}

interface Asking {
  tenantId: string;
  keyId: string;
  quotas: Quotas;
}

/** The rates that every request of a key meets. */
export function requestRates({ tenantId, keyId, quotas }: Asking): Rate[] {
  return [
    ...rateOf('tenant', tenantId, [quotas.requestsPerMinute, 60]),
    ...rateOf('key', keyId, [quotas.keyRequestsPerMinute, 60]),
  ];
}

/** The rate of a user's messages to sessions. */
export function chatRates({ tenantId, quotas }: Asking, userId: string): Rate[] {
  // What a user is called stays out of the stores that count.
  return rateOf('chats', `${tenantId}:${sha256(userId).toString('hex')}`, [quotas.chatsPerHour, 3600]);
}

/** The rate of a session's executions. */
export function executeRates({ tenantId, quotas }: Asking, sessionId: string): Rate[] {
  return rateOf('executes', `${tenantId}:${sessionId}`, [quotas.executesPerMinute, 60]);
}

function rateOf(policy: Rate['policy'], subject: string, [quota, windowSeconds]: [number | null, number]): Rate[] {
  return quota === null ? [] : [{ policy, subject, quota, windowSeconds }];
}

/** The items of `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers, the form since its revision 08). */
export function rateHeaders({ policy, quota, windowSeconds, used, resetSeconds }: RateState): {
  policy: string;
  state: string;
} {
  return {
    policy: `"${policy}";q=${quota};w=${windowSeconds}`,
    state: `"${policy}";r=${Math.max(0, quota - used)};t=${resetSeconds}`,
  };
}
