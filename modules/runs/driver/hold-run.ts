/** A driver's hold on a run: keeps its lease, and listens to the bus meanwhile. */
import type { Context } from '../../governance/context.ts';
import { LostRunError } from '../../run-log/errors.ts';
import { keepLease, type Held } from '../../run-log/keep-lease.ts';
import type { DriveBasis } from './drive-state.ts';

interface Hold {
  lost: AbortSignal;
  heard: DriveBasis['heard'];
  holdsLease: DriveBasis['holdsLease'];
  close: () => void;
}

/** Renews the lease, once the run exists and until the lease is lost, and listens for a cancel. */
export function holdRun(context: Context, held: Held, isCreated: () => boolean): Hold {
  const lost = new AbortController();
  const heard = { governance: false };
  const { leaseMs } = context.config;
  const lease = keepLease({ db: context.db, leaseMs }, held, { lost, isCreated });
  const unsubscribe = context.bus.subscribe(held.runId, (message) => {
    if (message.kind === 'abort' && held.fence < (message.below ?? Infinity))
      lost.abort(new LostRunError(message.reason));
    if (message.kind === 'governed') heard.governance = true;
  });
  return {
    lost: lost.signal,
    heard,
    holdsLease: lease.holdsLease,
    close: () => {
      lease.stop();
      unsubscribe();
    },
  };
}
