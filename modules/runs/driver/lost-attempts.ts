/** What a driver has begun when it loses its run, and what comes of it after that. */
import { setTimeout as sleep } from 'node:timers/promises';
import { linkSignals } from '../../../lib/link-signals.ts';
import { LostRunError } from '../../run-log/errors.ts';
import { retryWhileUnavailable } from '../../run-log/retry-while-unavailable.ts';
import type { AttemptEnd, ClaimedCall, HeldClaim, MadeAttempt } from '../../tool-calls/attempt.ts';
import { settleLostCall } from '../../tool-calls/settle-tool-call.ts';
import type { Drive } from './drive-state.ts';

/** How long the result is kept for whoever drives the run next, and for a database that is away. */
const PATIENCE_MS = 600_000;

/**
 * The signal of an attempt. One that may not be repeated is not broken off because the lease of its run is lost: what it
 * comes to is known here and nowhere else.
 */
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

/** Settles an attempt with the steps of its run; if the run is lost by then, in the ledger, as a late result. */
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
