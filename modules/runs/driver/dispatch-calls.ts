/**
 * Queued calls made by this process: the commit that requests them also claims them, like a worker's claim, and no job is
 * sent. If the process has no room, they go to the queue.
 */
import { setImmediate } from 'node:timers/promises';
import { beginAttempt } from '../../../core/decision-events/tool-calls.ts';
import { approvalSeconds } from '../../../core/definition.ts';
import type { NewEvent } from '../../../core/events.ts';
import type { CallState } from '../../../core/state.ts';
import { newId } from '../../../lib/new-id.ts';
import { appendEvent, changeCall, findInserted } from '../../run-log/run-log.ts';
import { retryWhileUnavailable } from '../../run-log/retry-while-unavailable.ts';
import { giveBackClaim } from '../../tool-calls/claim-tool-call.ts';
import { PATIENCE_MS, runClaimedCall } from '../../tool-calls/run-tool-call.ts';
import { traceOf, type Drive } from './drive-state.ts';

const FIRST_ATTEMPT = 1;

/**
 * Claims calls with the next commit, while this process has room; returns the rest. Only calls requested by this commit:
 * others may have been settled or decided meanwhile.
 */
export function claimLocally(drive: Drive, calls: readonly CallState[]): CallState[] {
  leaveReplaced(drive);
  const left: CallState[] = [];
  for (const call of calls) if (left.length > 0 || !claim(drive, call)) left.push(call);
  return left;
}

/** Frees the slots of calls that were requested again, with new ids, under a newer policy epoch. */
function leaveReplaced({ log, step }: Drive): void {
  for (const [id, { slot }] of step.dispatched) {
    if (findInserted(log, id)) continue;
    step.dispatched.delete(id);
    slot.leave();
  }
}

function claim(drive: Drive, call: CallState): boolean {
  const { log, step, tenantId, run, context } = drive;
  const row = findInserted(log, call.id);
  if (!row || step.gatedAt.get(call.id) !== drive.governance.epoch) return false;
  const slot = context.outbox.reserveCallSlot(tenantId);
  if (!slot) return false;
  const claimId = newId();
  appendEvent(log, { ...beginAttempt(log.state, call.id, FIRST_ATTEMPT), step: row.step });
  const set = { status: 'running' as const, attempt: FIRST_ATTEMPT, started_at: 'now' };
  const lease = { lease_ms: context.config.leaseMs, claim_id: claimId };
  changeCall(log, { id: call.id, from: ['pending'], set: { ...set, ...lease } });
  const ids = { tenantId, runId: run.id, turnId: row.turn_id, callId: call.id, step: row.step, attempt: 0, claimId };
  const traceparent = traceOf(drive);
  const job = { ...ids, ...(traceparent !== undefined && { traceparent }) };
  step.dispatched.set(call.id, { slot, row, job, sinceMs: performance.now() });
  return true;
}

/** Starts the calls that a commit has claimed. */
export function makeDispatched(drive: Drive, events: readonly NewEvent[]): void {
  const { context, step, run, tools, limits, attached } = drive;
  for (const event of events) {
    if (event.type !== 'tool.started') continue;
    const dispatched = step.dispatched.get(event.payload.tool_call_id);
    if (!dispatched) continue;
    step.dispatched.delete(dispatched.row.id);
    const { slot, row, job, sinceMs } = dispatched;
    const { claimId: _claim, ...payload } = job;
    const tool = tools.get(row.name);
    if (!tool) throw new Error(`the run pins no tool ${row.name}`);
    const claimed = {
      call: row,
      attempt: FIRST_ATTEMPT,
      agentId: run.agent_id,
      tool,
      retry: tool.execution.retry_config,
      acceptsDuplicates: limits.onUnknown === 'retry',
      questionSeconds: approvalSeconds(drive.definition),
    };
    attached?.open.add(row.id);
    slot.make(payload, async (stop) => {
      try {
        // A tool may answer at once: lets a driver that leaves the run end first, and put its state into the run cache.
        if (!attached) await setImmediate();
        return await runClaimedCall(context, payload, { claimed, sinceMs, stop, offer: attached?.offer });
      } finally {
        attached?.ended(row.id);
      }
    });
  }
}

/** Gives up calls whose claim may not have been committed. A claim that was committed is given back, since nothing was sent. */
export function leaveDispatched({ context, step, attached, stop }: Drive): void {
  attached?.left();
  const patience = { forMs: PATIENCE_MS, signal: stop };
  for (const { slot, job } of step.dispatched.values()) {
    slot.leave();
    retryWhileUnavailable(() => giveBackClaim(context, job), patience).catch((error: unknown) =>
      context.log.warn({ err: error, run: job.runId, call: job.callId }, 'call left until its lease is over'),
    );
  }
  step.dispatched.clear();
}
