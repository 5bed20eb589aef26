/** A driver's hold on a run: its lease, and what is heard while it lasts. */
import { renewRunLease } from '../../../db/leases.ts';
import type { Context } from '../../governance/context.ts';
import { LostRunError } from '../../run-log/errors.ts';
import type { Drive } from './session.ts';

export interface Held {
  tenantId: string;
  runId: string;
  fence: number;
  /** When the lease was asked for, by the process's own clock (`performance.now`). */
  sinceMs: number;
}

interface Hold {
  lost: AbortSignal;
  heard: Drive['heard'];
  holdsLease: Drive['holdsLease'];
  close: () => void;
}

/** Renews the lease by a timer of its own, once there is a run and until that is lost, and listens for a cancel. */
export function holdRun(context: Context, { sinceMs, ...of }: Held, isCreated: () => boolean): Hold {
  const lost = new AbortController();
  const heard = { governance: false };
  const { leaseMs } = context.config;
  let expiresAtMs = sinceMs + leaseMs;
  const holdsLease = () => performance.now() < expiresAtMs;
  const timer = setInterval(() => {
    if (!isCreated()) return;
    const askedAtMs = performance.now();
    renewRunLease(context.db, { ...of, leaseMs }).then(
      (isHeld) => {
        if (isHeld) expiresAtMs = askedAtMs + leaseMs;
        else lost.abort(new LostRunError('lease'));
      },
      // The database is away: we may go on until the lease has run out, and no longer.
      () => holdsLease() || lost.abort(new LostRunError('lease')),
    );
  }, leaseMs / 3);
  // Who has given the run up keeps nobody from taking it, whatever it still waits for.
  lost.signal.addEventListener('abort', () => clearInterval(timer));
  const unsubscribe = context.bus.subscribe(of.runId, (message) => {
    if (message.kind === 'abort' && of.fence < (message.below ?? Infinity))
      lost.abort(new LostRunError(message.reason));
    if (message.kind === 'governed') heard.governance = true;
  });
  return {
    lost: lost.signal,
    heard,
    holdsLease,
    close: () => {
      clearInterval(timer);
      unsubscribe();
    },
  };
}
