import type { Quotas } from './rate-limits.ts';
import type { Scope } from './scopes.ts';

/** On whose behalf a request acts. */
export interface Caller {
  tenantId: string;
  /** The workspace of the request. */
  workspaceId: string;
  /** The only workspace that the key may use, if it is bound. */
  boundWorkspaceId: string | undefined;
  keyId: string;
  scopes: readonly Scope[];
  /** The quotas of its tenant. */
  quotas: Quotas;
  /** An unbound admin key of the default tenant: it runs this installation. */
  isOperator: boolean;
  /** When the key ends, as was known when it was presented, by this process's monotonic clock; absent: never. */
  keyUntilMs?: number;
  /** For requests with a token: when that ends, by the same clock. */
  tokenUntilMs?: number;
  /** The only thread that the token admits to, if it is bound. */
  boundThreadId?: string;
  /** The request that brought the key. */
  origin?: Origin;
}

/** Where a request came from, as the audit log keeps it. */
export interface Origin {
  ip?: string | undefined;
  /** As proxies report it. Anybody can forge it. */
  forwardedFor?: string | undefined;
  requestId: string;
}
