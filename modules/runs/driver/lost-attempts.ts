/** What becomes of attempts whose driver loses its run. */
import { setTimeout as sleep } from 'node:timers/promises';
import { linkSignals } from '../../../lib/link-signals.ts';
import { LostRunError } from '../../run-log/errors.ts';
import { retryWhileUnavailable } from '../../run-log/retry-while-unavailable.ts';
import type { AttemptEnd, ClaimedCall, HeldClaim, MadeAttempt } from '../../tool-calls/attempt.ts';
import { settleLostCall } from '../../tool-calls/settle-tool-call.ts';
import type { Drive } from './drive-state.ts';

/** How long a result is retried, for the next driver, and while the database is away. */
const PATIENCE_MS = 600_000;

/** The signal of an attempt. A lost lease does not abort a call that may not be repeated: its result exists only here. */
export function outliveLease(drive: Drive, { call }: ClaimedCall): Pick<HeldClaim, 'signal' | 'release'> {
  const { signal: source, stop } = drive;
  if (call.effect !== 'unknown') return { signal: source, release: () => undefined };
  const broken = new AbortController();
  const onAbort = () => {
    if (!isLease(source.reason)) broken.abort(source.reason);
  };
  if (source.aborted) onAbort();
  else source.addEventListener('abort', onAbort, { once: true });
  const linked = linkSignals(broken.signal, stop);
  const release = () => {
    linked.release();
    source.removeEventListener('abort', onAbort);
  };
  return { signal: linked.signal, release };
}

/**
 * Settles an attempt with the steps of its run. If the run is lost and the call may not be repeated, settles it in the ledger,
 * as a late result.
 */
export async function keepLost(
  drive: Drive,
  made: MadeAttempt,
  settle: () => Promise<AttemptEnd>,
): Promise<AttemptEnd> {
  const { call } = made.claim;
  try {
    if (call.effect === 'unknown' && isLease(drive.signal.reason)) throw drive.signal.reason;
    return await settle();
  } catch (error) {
    if (error instanceof LostRunError && call.effect === 'unknown' && made.outcome.kind !== 'aborted') {
      await settleLate(drive, made);
    }
    throw error;
  }
}

async function settleLate({ context, tenantId, run, stop }: Drive, made: MadeAttempt): Promise<void> {
  const job = { tenantId, runId: run.id, callId: made.claim.call.id };
  const patience = { forMs: PATIENCE_MS, signal: stop };
  const endsAtMs = performance.now() + PATIENCE_MS;
  while (!(await retryWhileUnavailable(() => settleLostCall(context, job, made), patience))) {
    if (stop.aborted || performance.now() > endsAtMs) return;
    await sleep(context.config.leaseMs / 3, undefined, { signal: stop }).catch(() => undefined);
  }
}

function isLease(reason: unknown): reason is LostRunError {
  return reason instanceof LostRunError && reason.why === 'lease';
}
