/** One attempt of one call by a worker: its claim and its settlement are commits of their own. */
import { linkSignals } from '../../lib/link-signals.ts';
import { renewCallLease } from '../../db/leases.ts';
import type { ToolCallJob } from '../../jobs/tool-calls.ts';
import type { Context } from '../governance/context.ts';
import { retryWhileUnavailable } from '../run-log/retry-while-unavailable.ts';
import { attempt, type AttemptEnd, type Committer, type MadeAttempt } from './attempt.ts';
import { claimToolCall } from './claim-tool-call.ts';
import { settleToolCall } from './settle-tool-call.ts';

/**
 * Makes the next attempt of a call. A call whose worker was lost is sent again only where its tool is read-only or
 * idempotent, else it ends `unknown`. `tell` hears what came of the attempt. Infrastructure errors throw; what the tool does wrong is data.
 */
export async function runToolCall(
  context: Context,
  job: ToolCallJob & { tell?: (status: MadeAttempt['settlement']['status']) => void },
  stop: AbortSignal,
): Promise<AttemptEnd> {
  const committer: Committer = {
    claim: () => claimToolCall(context, job),
    hold: (claim) => holdCall(context, job, { attempt: claim.attempt, stop }),
    settle: (made) => {
      job.tell?.(made.settlement.status);
      return retryWhileUnavailable(() => settleToolCall(context, job, made), { forMs: PATIENCE_MS, signal: stop });
    },
  };
  return attempt(context, job, committer);
}

/** What the tool did is known here and nowhere else: a database that is away for a moment must not make it unknown. */
const PATIENCE_MS = 60_000;

/** Renews the lease by a timer apart from the work, and aborts the attempt when it is lost or the run is cancelled. */
function holdCall(context: Context, job: ToolCallJob, held: { attempt: number; stop: AbortSignal }) {
  const lost = new AbortController();
  const { leaseMs } = context.config;
  const timer = setInterval(() => {
    renewCallLease(context.db, {
      tenantId: job.tenantId,
      callId: job.callId,
      attempt: held.attempt,
      leaseMs,
    }).then(
      (isHeld) => isHeld || lost.abort(new Error('the lease of the call was lost')),
      // The database is away: the attempt goes on, and its result is refused if another has taken over.
      () => undefined,
    );
  }, leaseMs / 3);
  const unsubscribe = context.bus.subscribe(job.runId, (message) => {
    if (message.kind === 'abort') lost.abort(new Error(`the run got a ${message.reason}`));
  });
  const linked = linkSignals(held.stop, lost.signal);
  return {
    signal: linked.signal,
    release: () => {
      linked.release();
      clearInterval(timer);
      unsubscribe();
    },
  };
}
