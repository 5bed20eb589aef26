/** The lease of a run, for as long as somebody works on it. */
import type { Database } from '../../db/database.ts';
import { renewRunLease } from '../../db/leases.ts';
import { LostRunError } from './errors.ts';

export interface Held {
  tenantId: string;
  runId: string;
  fence: number;
  /** When the lease was asked for, by the process's own clock (`performance.now`). */
  sinceMs: number;
}

interface Kept {
  /** Whether the lease surely lasts, by a clock that nobody sets. */
  holdsLease: () => boolean;
  stop: () => void;
}

/**
 * Renews the lease by a timer of its own, once there is a run, and aborts `lost` where another has taken the run, or the
 * database was away until the lease ran out.
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
  // Who has given the run up keeps nobody from taking it, whatever it still waits for.
  lost.signal.addEventListener('abort', stop);
  return { holdsLease, stop };
}
