import type { Quotas } from './rate-limits.ts';
import type { Scope } from './scopes.ts';

/** Who a request acts for. */
export interface Caller {
  tenantId: string;
  /** The workspace that the request works in. */
  workspaceId: string;
  /** Set where the key may use no other workspace. */
  boundWorkspaceId: string | undefined;
  keyId: string;
  scopes: readonly Scope[];
  /** What its tenant may ask for. */
  quotas: Quotas;
  /** Holds an admin key of the default tenant, unbound: runs this installation. */
  isOperator: boolean;
  /** Set where it came with a token: what is left of it. */
  tokenLeftMs?: number;
  /** Set where the token is for one thread: it takes part in no other. */
  boundThreadId?: string;
  /** The request that the key came with. */
  origin?: Origin;
}

/** Where a request came from, as the audit log keeps it. */
export interface Origin {
  ip?: string | undefined;
  /** What proxies say of the way before them; anybody can claim it. */
  forwardedFor?: string | undefined;
  requestId: string;
}
