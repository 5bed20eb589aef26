/** One attempt of a call by a worker, with separate commits for claim and settlement. */
import { linkSignals } from '../../lib/link-signals.ts';
import { isRefusedData } from '../../db/database-errors.ts';
import { renewCallLease } from '../../db/leases.ts';
import { findToolCall } from '../../db/tool-calls.ts';
import type { ToolCallJob } from '../../jobs/tool-calls.ts';
import type { Context } from '../governance/context.ts';
import { retryWhileUnavailable } from '../run-log/retry-while-unavailable.ts';
import {
  attempt,
  endOf,
  withoutAnswer,
  type AttemptEnd,
  type Attempted,
  type ClaimedCall,
  type Committer,
  type HeldClaim,
  type MadeAttempt,
} from './attempt.ts';
import { cancelRemote } from './cancel-remote.ts';
import { claimToolCall } from './claim-tool-call.ts';
import { settleToolCall } from './settle-tool-call.ts';

/**
 * Makes the next attempt of a call. If its worker was lost, it is sent again only if its tool is read-only or idempotent;
 * otherwise it ends `unknown`. Infrastructure errors throw; failures of the tool are data.
 */
export async function runToolCall(context: Context, job: ToolCallJob, stop: AbortSignal): Promise<Attempted> {
  const patience = { forMs: PATIENCE_MS, signal: stop };
  let askedAtMs = performance.now();
  const committer: Committer = {
    claim: () => {
      askedAtMs = performance.now();
      return claimToolCall(context, job, patience);
    },
    hold: (claim) => holdCall(context, job, { claim, sinceMs: askedAtMs, stop }),
    settle: (made) => settle(context, job, { made, stop }),
  };
  return clearUp(context, job, { attempted: await attempt(context, job, committer), stop });
}

interface HeldCall {
  claimed: ClaimedCall;
  /** Time of the lease's request, by the process's own clock (`performance.now`). */
  sinceMs: number;
  stop: AbortSignal;
  /** Settles the attempt with a step of its run; false if nobody drives the run any more. */
  offer?: ((made: MadeAttempt) => Promise<boolean>) | undefined;
}

/** Makes an attempt of a call that was claimed with its request. */
export async function runClaimedCall(
  context: Context,
  job: ToolCallJob,
  { claimed, sinceMs, stop, offer }: HeldCall,
): Promise<Attempted> {
  const committer: Committer = {
    claim: () => Promise.resolve(claimed),
    hold: (claim) => holdCall(context, job, { claim, sinceMs, stop }),
    async settle(made) {
      return (await offer?.(made)) ? endOf(made) : settle(context, job, { made, stop });
    },
  };
  return clearUp(context, job, { attempted: await attempt(context, job, committer), stop });
}

/** Cancels work begun elsewhere for which nobody waits any more. */
async function clearUp(
  context: Context,
  job: ToolCallJob,
  { attempted, stop }: { attempted: Attempted; stop: AbortSignal },
): Promise<Attempted> {
  const { end, outcome } = attempted;
  return end.kind === 'done' && end.abandons ? { end: await cancelRemote(context, job, stop), outcome } : attempted;
}

async function settle(
  context: Context,
  job: ToolCallJob,
  { made, stop }: { made: MadeAttempt; stop: AbortSignal },
): Promise<AttemptEnd> {
  const commit = (settled: MadeAttempt) =>
    retryWhileUnavailable(() => settleToolCall(context, job, settled), { forMs: PATIENCE_MS, signal: stop });
  try {
    return await commit(made);
  } catch (error) {
    // Its lease would end the same way, and then each further attempt.
    if (!isRefusedData(error)) throw error;
    context.log.error({ err: error, run: job.runId, call: job.callId }, 'the outcome of a call cannot be stored');
    return commit(withoutAnswer(made));
  }
}

/**
 * Only this process knows what the tool did, or that it was not asked: a temporary outage of the database must not make the
 * outcome unknown.
 */
export const PATIENCE_MS = 600_000;

interface Held {
  claim: ClaimedCall;
  /** Time of the lease's request, by the process's own clock (`performance.now`). */
  sinceMs: number;
  stop: AbortSignal;
}

/** Renews the lease by timer, and aborts the attempt when the lease is lost, or the turn or run is over. */
function holdCall(context: Context, job: ToolCallJob, { claim, sinceMs, stop }: Held): HeldClaim {
  const lost = new AbortController();
  const number = claim.attempt;
  const { turn_id: turnId } = claim.call;
  const { leaseMs } = context.config;
  const { tenantId, callId } = job;
  let expiresAtMs = sinceMs + leaseMs;
  const renew = async () => {
    const askedAtMs = performance.now();
    if (await renewCallLease(context.db, { tenantId, callId, attempt: number, leaseMs })) {
      expiresAtMs = askedAtMs + leaseMs;
    } else if (!(await isUnknown(context, job, number))) {
      lost.abort(new Error('the lease of the call was lost'));
    }
  };
  // If the database is unavailable, the attempt continues; its result is refused if another has taken over.
  const timer = setInterval(() => void renew().catch(() => undefined), leaseMs / 3);
  const unsubscribe = context.bus.subscribe(job.runId, (message) => {
    if (message.kind === 'abort' && (message.turnId ?? turnId) === turnId)
      lost.abort(new Error(`the run got a ${message.reason}`));
  });
  const linked = linkSignals(stop, lost.signal);
  return {
    signal: linked.signal,
    maySend: () => performance.now() < expiresAtMs,
    release: () => {
      linked.release();
      clearInterval(timer);
      unsubscribe();
    },
  };
}

/** Whether this attempt was taken for lost: no other is made until a person decides, and its result counts. */
async function isUnknown({ db }: Context, { tenantId, callId }: ToolCallJob, number: number): Promise<boolean> {
  const call = await db.withTenant(tenantId, (tx) => findToolCall(tx, callId));
  return call?.status === 'unknown' && call.attempt === number;
}
