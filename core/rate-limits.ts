/** Rate limits of tenants, keys, users and sessions, and their response headers. */
import { sha256 } from './ids.ts';
import { LIMITS } from './limits.ts';

/** Values that an operator may set for a tenant instead of its tier's; null: no limit. */
export interface RateSettings {
  requests_per_minute?: number | null | undefined;
  /** For each of its keys, within the tenant's limit; without it a key may use all of that. */
  key_requests_per_minute?: number | null | undefined;
  chats_per_hour?: number | null | undefined;
  executes_per_minute?: number | null | undefined;
  /** No rate: streams, WebSockets and waiting requests that it has open at a process. */
  open_requests?: number | null | undefined;
}

/** Limits that apply to requests of a key; null: no limit. */
export interface Quotas {
  requestsPerMinute: number | null;
  keyRequestsPerMinute: number | null;
  chatsPerHour: number | null;
  executesPerMinute: number | null;
  openRequests: number | null;
}

/** One limit for a request: a number of requests in a window, which begins with the first. */
export interface Rate {
  /** The name in headers and problems. */
  policy: 'tenant' | 'key' | 'chats' | 'executes';
  /** Whose requests are counted together. Only ids and digests. */
  subject: string;
  quota: number;
  windowSeconds: number;
}

/** A limit after this request was counted. */
interface RateState extends Rate {
  used: number;
  /** Seconds until the window ends. */
  resetSeconds: number;
}

const TIERS = new Map<string, number>([
  ['free', LIMITS.freeRequestsPerMinute],
  ['standard', LIMITS.standardRequestsPerMinute],
  ['enterprise', LIMITS.enterpriseRequestsPerMinute],
]);

/** A tenant's quotas: from its settings, otherwise its tier. An unknown tier counts as `standard`; the default tenant's requests have no limit. */
export function quotasOf(tenant: { planTier: string; isDefault: boolean; settings: RateSettings }): Quotas {
  const { planTier, isDefault, settings } = tenant;
  const ofTier = isDefault ? null : (TIERS.get(planTier) ?? LIMITS.standardRequestsPerMinute);
  const set = (value: number | null | undefined, otherwise: number | null) => (value === undefined ? otherwise : value);
  return {
    requestsPerMinute: set(settings.requests_per_minute, ofTier),
    keyRequestsPerMinute: settings.key_requests_per_minute ?? null,
    chatsPerHour: set(settings.chats_per_hour, LIMITS.chatsPerHour),
    executesPerMinute: set(settings.executes_per_minute, LIMITS.executesPerMinute),
    openRequests: set(settings.open_requests, isDefault ? null : LIMITS.openRequests),
  };
}

interface Asking {
  tenantId: string;
  keyId: string;
  quotas: Quotas;
}

/** Limits for every request of a key. */
export function requestRates({ tenantId, keyId, quotas }: Asking): Rate[] {
  return [
    ...rateOf('tenant', tenantId, [quotas.requestsPerMinute, 60]),
    ...rateOf('key', keyId, [quotas.keyRequestsPerMinute, 60]),
  ];
}

/** Limit of a user's messages to sessions. */
export function chatRates({ tenantId, quotas }: Asking, userId: string): Rate[] {
  // Users' names are kept out of the stores that count.
  return rateOf('chats', `${tenantId}:${sha256(userId).toString('hex')}`, [quotas.chatsPerHour, 3600]);
}

/** Limit of a session's executions. */
export function executeRates({ tenantId, quotas }: Asking, sessionId: string): Rate[] {
  return rateOf('executes', `${tenantId}:${sessionId}`, [quotas.executesPerMinute, 60]);
}

function rateOf(policy: Rate['policy'], subject: string, [quota, windowSeconds]: [number | null, number]): Rate[] {
  return quota === null ? [] : [{ policy, subject, quota, windowSeconds }];
}

/** Items of the headers `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers, from revision 08 on). */
export function rateHeaders({ policy, quota, windowSeconds, used, resetSeconds }: RateState): {
  policy: string;
  state: string;
} {
  return {
    policy: `"${policy}";q=${quota};w=${windowSeconds}`,
    state: `"${policy}";r=${Math.max(0, quota - used)};t=${resetSeconds}`,
  };
}
