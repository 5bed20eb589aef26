/** What becomes of attempts whose driver loses its run. */
import { setTimeout as sleep } from 'node:timers/promises';
import { linkSignals } from '../../../lib/link-signals.ts';
import { hasMovedOn, isPassing } from '../../../db/database-errors.ts';
import { LostRunError } from '../../run-log/errors.ts';
import { retryWhileUnavailable } from '../../run-log/retry-while-unavailable.ts';
import type { AttemptEnd, ClaimedCall, HeldClaim } from '../../tool-calls/attempt.ts';
import { PATIENCE_MS } from '../../tool-calls/run-tool-call.ts';
import { settleLostCall, type LostAttempt } from '../../tool-calls/settle-tool-call.ts';
import type { Drive } from './drive-state.ts';

/** An attempt of the driver that has ended. */
type EndedAttempt = Omit<LostAttempt, 'fence'>;

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
 * Settles an attempt with the steps of its run. If that cannot be committed and the call may not be repeated, settles it by
 * itself: with the run's log while no other driver has claimed the run, otherwise as a late result.
 */
export async function keepLost(
  drive: Drive,
  ended: EndedAttempt,
  settle: () => Promise<AttemptEnd>,
): Promise<AttemptEnd> {
  const { made } = ended;
  const { call } = made.claim;
  try {
    if (call.effect === 'unknown' && isLease(drive.signal.reason)) throw drive.signal.reason;
    return await settle();
  } catch (error) {
    if (isUnsettled(drive, error) && call.effect === 'unknown' && made.outcome.kind !== 'aborted') {
      await settleLate(drive, ended);
    }
    throw error;
  }
}

/** Whether the run is lost, the database was away for too long, or another call of the drive was settled by itself. */
function isUnsettled({ signal }: Drive, error: unknown): boolean {
  return error instanceof LostRunError || isLease(signal.reason) || isPassing(error) || hasMovedOn(error);
}

/** Settles the attempt by itself, once the database is there and no other driver is about to take it for lost. */
export async function settleLate({ context, tenantId, run, fence, stop }: Drive, ended: EndedAttempt): Promise<void> {
  const job = { tenantId, runId: run.id, callId: ended.made.claim.call.id };
  const patience = { forMs: PATIENCE_MS, signal: stop };
  const endsAtMs = performance.now() + PATIENCE_MS;
  while (!(await retryWhileUnavailable(() => settleLostCall(context, job, { ...ended, fence }), patience))) {
    if (stop.aborted || performance.now() > endsAtMs) return;
    await sleep(context.config.leaseMs / 3, undefined, { signal: stop }).catch(() => undefined);
  }
}

function isLease(reason: unknown): reason is LostRunError {
  return reason instanceof LostRunError && reason.why === 'lease';
}
