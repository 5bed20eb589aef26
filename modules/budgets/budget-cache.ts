/** Caches for a few seconds which tenants have budgets, so that runs without any pay nothing for them. */
import { LRUCache } from 'lru-cache';
import { listBudgetScopes } from '../../db/budgets.ts';
import type { Database } from '../../db/database.ts';

export interface BudgetCache {
  /** Whether a budget of the tenant, its workspace or its agent applies to a run. */
  applyTo: (run: { tenant_id: string; workspace_id: string; agent_id: string }) => Promise<boolean>;
  /** Reads again on the next request, as the tenant's budgets have changed. */
  forget: (tenantId: string) => void;
}

type Scopes = Awaited<ReturnType<typeof listBudgetScopes>>;

/** The longest time until a new budget applies in other processes. */
const REMEMBERED_MS = 5000;
const MOST_TENANTS = 10_000;

/** Scopes of budgets, by tenant. */
export function createBudgetCache(db: Database): BudgetCache {
  const cache = new LRUCache<string, Promise<Scopes>>({
    max: MOST_TENANTS,
    ttl: REMEMBERED_MS,
    ttlResolution: 0,
  });
  const scopesOf = (tenantId: string): Promise<Scopes> => {
    const found = cache.get(tenantId);
    if (found) return found;
    const scopes = db.withTenant(tenantId, listBudgetScopes);
    cache.set(tenantId, scopes);
    scopes.catch(() => cache.peek(tenantId) === scopes && cache.delete(tenantId));
    return scopes;
  };
  return {
    applyTo: async (run) => {
      const scopes = await scopesOf(run.tenant_id);
      return scopes.some(
        ({ workspace_id, agent_id }) =>
          (workspace_id === null || workspace_id === run.workspace_id) &&
          (agent_id === null || agent_id === run.agent_id),
      );
    },
    forget: (tenantId) => void cache.delete(tenantId),
  };
}
