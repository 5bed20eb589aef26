/** Keeps the lease of a run while somebody works on it. */
import type { Database } from '../../db/database.ts';
import { renewRunLease } from '../../db/leases.ts';
import { LostRunError } from './errors.ts';

export interface Held {
  tenantId: string;
  runId: string;
  fence: number;
  /** Time of the lease's request, by the process's own clock (`performance.now`). */
  sinceMs: number;
}

interface Kept {
  /** Whether the lease is certainly valid, by a monotonic clock. */
  holdsLease: () => boolean;
  stop: () => void;
}

/**
 * Renews the lease by timer once there is a run. Aborts `lost` if another driver has taken the run, or the database was
 * unavailable until the lease expired.
 */
export function keepLease(
  { db, leaseMs }: { db: Database; leaseMs: number },
  { sinceMs, ...of }: Held,
  { lost, isCreated = () => true }: { lost: AbortController; isCreated?: () => boolean },
): Kept {
  let expiresAtMs = sinceMs + leaseMs;
  const holdsLease = () => performance.now() < expiresAtMs;
  const timer = setInterval(() => {
    if (!isCreated()) return;
    const askedAtMs = performance.now();
    renewRunLease(db, { ...of, leaseMs }).then(
      (isHeld) => {
        if (isHeld) expiresAtMs = askedAtMs + leaseMs;
        else lost.abort(new LostRunError('lease'));
      },
      () => holdsLease() || lost.abort(new LostRunError('lease')),
    );
  }, leaseMs / 3);
  const stop = () => clearInterval(timer);
  // After giving up the run, do not keep others from taking it, whatever is still pending here.
  lost.signal.addEventListener('abort', stop);
  return { holdsLease, stop };
}
