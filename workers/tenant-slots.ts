/** Limits how many jobs of one tenant a worker process runs at once while other tenants want to run. */
import { LRUCache } from 'lru-cache';
import { LIMITS } from '../core/limits.ts';

export interface TenantSlots {
  /** Takes a slot, and returns how to give it back; undefined if the tenant has its share already. */
  take: (tenantId: string) => (() => void) | undefined;
  /** How long to put back a job that got no slot, in ms: longer the more jobs of the tenant are put back. */
  pauseMs: (tenantId: string) => number;
}

/** How long a tenant counts as active after its last job. */
const REMEMBERED_MS = 60_000;
const FIRST_PAUSE_MS = 500;
const PAUSE_PER_JOB_MS = 20;
const LONGEST_PAUSE_MS = 10_000;
/** The most tenants whose refusals are counted, the last refused. */
const MOST_REFUSED = 10_000;

/** Slots of a worker with this concurrency. `now` gives ms since the epoch. */
export function createTenantSlots(concurrency: number, now: () => number = Date.now): TenantSlots {
  const most = Math.max(1, Math.ceil((concurrency * LIMITS.tenantSharePercent) / 100));
  const taken = new Map<string, number>();
  const seen = new Map<string, number>();
  const refused = new LRUCache<string, { count: number; until: number }>({
    // With `max` it would make room for all of them at once, which takes longer than to start the worker.
    maxSize: MOST_REFUSED,
    sizeCalculation: () => 1,
  });

  const isAlone = (tenantId: string): boolean => {
    const at = now();
    for (const [each, last] of seen) {
      if (last < at - REMEMBERED_MS) seen.delete(each);
      else if (each !== tenantId) return false;
    }
    return true;
  };
  return {
    take(tenantId) {
      const held = taken.get(tenantId) ?? 0;
      const alone = isAlone(tenantId);
      seen.set(tenantId, now());
      if (held >= most && !alone) return undefined;
      taken.set(tenantId, held + 1);
      return () => {
        const left = (taken.get(tenantId) ?? 1) - 1;
        if (left > 0) taken.set(tenantId, left);
        else taken.delete(tenantId);
      };
    },
    pauseMs(tenantId) {
      const before = refused.get(tenantId);
      const count = before && before.until > now() ? before.count + 1 : 1;
      const ms = Math.min(FIRST_PAUSE_MS + PAUSE_PER_JOB_MS * count, LONGEST_PAUSE_MS);
      refused.set(tenantId, { count, until: now() + ms });
      return Math.round(ms * (0.75 + Math.random() / 2));
    },
  };
}
