/**
 * Orders jobs between tenants by BullMQ's priority, a virtual time. Each job advances its tenant's time by its
 * duration, so a tenant that has used more than its share comes after those that have not. A job's place is its
 * tenant's time, never earlier than now, so that no job waits for an endless row of later ones.
 */
import { LIMITS } from '../core/limits.ts';

export interface FairOrder {
  /** The priority of the tenant's next job: the lower, the earlier. */
  next: (tenantId: string) => number;
  /** Reports a job's duration: time beyond a job's usual one moves the tenant back. */
  spent: (tenantId: string, ms: number) => void;
}

/** BullMQ's highest priority. */
const HIGHEST = 2 ** 21 - 1;
/**
 * Places in a round, after which priorities start again from 2: 24 days at a job's usual time of a second. Jobs still
 * waiting from the round before are then moved to the front, as priority 1 (`renewPriorities`).
 */
const ROUND = HIGHEST - 2;
/** The length of a round in ms. Rounds are counted from the epoch. */
export const ROUND_MS = ROUND * LIMITS.fairJobMs;
const MOST_TENANTS = 10_000;

/** This process's own order, from the jobs that it sends and runs. `now` gives ms since the epoch. */
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

/** If the tenant's time is in the next round, the job goes to the end of this one, not to the front. */
function priorityAt({ at, time }: { at: number; time: number }): number {
  return roundOf(time) > roundOf(at) ? HIGHEST : 2 + (placeOf(time) % ROUND);
}

/** Whether a waiting job with this priority is from an earlier round: those of this round cannot be so far behind. */
export function isOfEarlierRound(priority: number, now: number): boolean {
  return priority > 2 + (placeOf(now) % ROUND) + (2 * LIMITS.fairAheadSeconds * 1000) / LIMITS.fairJobMs;
}

const placeOf = (ms: number) => Math.floor(ms / LIMITS.fairJobMs);
const roundOf = (ms: number) => Math.floor(placeOf(ms) / ROUND);
