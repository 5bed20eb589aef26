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

/** BullMQ's highest priority. */
const HIGHEST = 2 ** 21 - 1;
/**
 * Places in a round, after which priorities begin again from 2: 24 days at a job's usual time of a second. What waits
 * from the round before is then moved to the front, as priority 1 (`renewPriorities`).
 */
const ROUND = HIGHEST - 2;
/** The length of a round in ms. Rounds are counted from the epoch. */
export const ROUND_MS = ROUND * LIMITS.fairJobMs;
const MOST_TENANTS = 10_000;

/** An order of this process's own: what it sends and runs of a tenant. `now` gives ms since the epoch. */
export function createFairOrder(now: () => number = Date.now): FairOrder {
  const times = new Map<string, number>();
  const move = (tenantId: string, ms: number): { at: number; time: number } => {
    const at = now();
    const time = Math.max(at, times.get(tenantId) ?? 0);
    if (times.size >= MOST_TENANTS) for (const [each, past] of times) if (past <= at) times.delete(each);
    times.set(tenantId, Math.min(time + ms, at + LIMITS.fairAheadSeconds * 1000));
    return { at, time };
  };
  return {
    next: (tenantId) => priorityAt(move(tenantId, LIMITS.fairJobMs)),
    spent: (tenantId, ms) => void move(tenantId, Math.max(0, ms - LIMITS.fairJobMs)),
  };
}

/** A tenant whose time is in the next round already stands at the end of this one, not at the front. */
function priorityAt({ at, time }: { at: number; time: number }): number {
  return roundOf(time) > roundOf(at) ? HIGHEST : 2 + (placeOf(time) % ROUND);
}

/** Whether a job that waits with this priority was sent in an earlier round: none of this one stands so far behind. */
export function isOfEarlierRound(priority: number, now: number): boolean {
  return priority > 2 + (placeOf(now) % ROUND) + (2 * LIMITS.fairAheadSeconds * 1000) / LIMITS.fairJobMs;
}

const placeOf = (ms: number) => Math.floor(ms / LIMITS.fairJobMs);
const roundOf = (ms: number) => Math.floor(placeOf(ms) / ROUND);
