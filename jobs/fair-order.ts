/**
 * The order of jobs between tenants, as BullMQ's priority: a virtual time. Each job of a tenant moves the tenant's own time
 * on by what a job takes, and a tenant that has taken more than its time stands behind those that have not. A job's place
 * is its tenant's time, never earlier than now: so none waits for jobs without end that come after it.
 */
import { LIMITS } from '../core/limits.ts';

export interface FairOrder {
  /** The priority of the tenant's next job: the lower, the earlier. */
  next: (tenantId: string) => number;
  /** A job of the tenant has taken so long: what goes beyond a job's usual time moves the tenant back. */
  spent: (tenantId: string, ms: number) => void;
}

/** BullMQ's highest priority; at a job's usual time of a second it comes round again after 24 days. */
const HIGHEST = 2 ** 21;
const MOST_TENANTS = 10_000;

/** An order of this process's own: what it sends and runs of a tenant. `now` gives ms since the epoch. */
export function createFairOrder(now: () => number = Date.now): FairOrder {
  const times = new Map<string, number>();
  const move = (tenantId: string, ms: number): number => {
    const at = now();
    const time = Math.max(at, times.get(tenantId) ?? 0);
    if (times.size >= MOST_TENANTS) for (const [each, past] of times) if (past <= at) times.delete(each);
    times.set(tenantId, Math.min(time + ms, at + LIMITS.fairAheadSeconds * 1000));
    return time;
  };
  return {
    next: (tenantId) => 1 + (Math.floor(move(tenantId, LIMITS.fairJobMs) / LIMITS.fairJobMs) % (HIGHEST - 1)),
    spent: (tenantId, ms) => void move(tenantId, Math.max(0, ms - LIMITS.fairJobMs)),
  };
}
