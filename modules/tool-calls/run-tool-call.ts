/** One attempt of one call through the ledger: claim in a commit of its own, execute, settle. */
import { linkSignals } from '../../lib/link-signals.ts';
import type { ToolOutcome } from '../../core/tool.ts';
import { renewCallLease } from '../../db/leases.ts';
import type { Context } from '../governance/context.ts';
import { retryWhileUnavailable } from '../run-log/retry-while-unavailable.ts';
import { reportProgress } from './report-progress.ts';
import type { ToolCallJob } from '../../jobs/tool-call.ts';
import { claimToolCall, type ClaimedCall, type ToolCallEnd } from './claim-tool-call.ts';
import { settleToolCall } from './settle-tool-call.ts';

/**
 * Makes the next attempt of a call. A call whose worker was lost is sent again only where its tool is read-only or
 * idempotent, else it ends `unknown`. Infrastructure errors throw; what the tool does wrong is data.
 */
export async function runToolCall(context: Context, job: ToolCallJob, stop: AbortSignal): Promise<ToolCallEnd> {
  const claim = await claimToolCall(context, job);
  if (!('tool' in claim)) return claim;
  const hold = holdCall(context, job, claim.attempt);
  const { signal, release } = linkSignals(stop, hold.lost);
  const startedMs = performance.now();
  let outcome: ToolOutcome;
  try {
    outcome = await execute(context, job, { claim, signal });
  } finally {
    release();
    hold.close();
  }
  const made = { claim, outcome, latencyMs: Math.round(performance.now() - startedMs) };
  return retryWhileUnavailable(() => settleToolCall(context, job, made), { forMs: PATIENCE_MS, signal: stop });
}

/** What the tool did is known here and nowhere else: a database that is away for a moment must not make it unknown. */
const PATIENCE_MS = 60_000;

function execute(
  context: Context,
  job: ToolCallJob,
  made: { claim: ClaimedCall; signal: AbortSignal },
): Promise<ToolOutcome> {
  const { call, attempt, tool } = made.claim;
  return context.tools.execute(tool, {
    tenantId: job.tenantId,
    runId: job.runId,
    toolCallId: call.id,
    idempotencyKey: call.idempotency_key,
    attempt,
    arguments: call.arguments,
    timeoutMs: tool.execution.timeout_ms,
    traceparent: job.traceparent,
    onProgress: reportProgress(context.bus, {
      runId: job.runId,
      turnId: call.turn_id,
      callId: call.id,
      tool: call.name,
    }),
    signal: made.signal,
  });
}

/** Renews the lease by a timer apart from the work, and aborts the attempt when it is lost or the run is cancelled. */
function holdCall(context: Context, job: ToolCallJob, attempt: number) {
  const lost = new AbortController();
  const { leaseMs } = context.config;
  const timer = setInterval(() => {
    renewCallLease(context.db, { tenantId: job.tenantId, callId: job.callId, attempt, leaseMs }).then(
      (isHeld) => isHeld || lost.abort(new Error('the lease of the call was lost')),
      // The database is away: the attempt goes on, and its result is refused if another has taken over.
      () => undefined,
    );
  }, leaseMs / 3);
  const unsubscribe = context.bus.subscribe(job.runId, (message) => {
    if (message.kind === 'abort') lost.abort(new Error(`the run got a ${message.reason}`));
  });
  return {
    lost: lost.signal,
    close: () => {
      clearInterval(timer);
      unsubscribe();
    },
  };
}
