/** What a run asks people: to approve a call, or to say what became of one. */
import { digestOf } from '../../../core/ids.ts';
import { newId } from '../../../lib/new-id.ts';
import type { CallState } from '../../../core/state.ts';
import { approvalSeconds } from '../../approvals/approval-request.ts';
import { appendEvent, changeCall } from '../../run-log/run-log.ts';
import type { DriveSession } from './session.ts';

/** Asks what became of calls whose outcome nobody knows. */
export function askAbout(session: DriveSession, calls: readonly CallState[]): void {
  for (const call of calls) {
    appendEvent(session.log, {
      type: 'approval.requested',
      actor: 'system',
      turn_id: session.log.state.turn?.id,
      step: session.log.state.steps,
      payload: {
        approval_id: newId(),
        tool_call_id: call.id,
        kind: 'unknown',
        tool: call.name,
        digest: digestOf({ tool_call: call.id }),
        expires_in_seconds: approvalSeconds(session.definition),
      },
    });
  }
}

/** A turn that fails asks nobody any more: what waits for approval is never made. */
export function closeQuestions(session: DriveSession): void {
  const by = { actor: 'system' as const, turn_id: session.log.state.turn?.id, step: session.log.state.steps };
  const closed = new Set<string>();
  const { plan } = session.log.state;
  for (const call of session.log.state.calls) {
    const isOpen = call.status === 'awaiting_approval' || (call.status === 'unknown' && call.asked === 'yes');
    if (!isOpen || !call.approvalId) continue;
    const isOfPlan = plan?.calls.includes(call.id) && call.status === 'awaiting_approval';
    const about = isOfPlan ? { plan_id: plan?.id } : { tool_call_id: call.id };
    const payload = { approval_id: call.approvalId, ...about };
    if (!closed.has(call.approvalId)) appendEvent(session.log, { ...by, type: 'approval.expired', payload });
    closed.add(call.approvalId);
    if (call.status === 'unknown') continue;
    const error = { code: 'denied', message: 'The turn ended before anybody approved the call.' };
    appendEvent(session.log, { ...by, type: 'tool.denied', payload: { tool_call_id: call.id, error } });
    changeCall(session.log, {
      id: call.id,
      from: ['awaiting_approval'],
      set: { status: 'denied', output: error.message, is_error: true, error, finished_at: 'now' },
    });
  }
}
