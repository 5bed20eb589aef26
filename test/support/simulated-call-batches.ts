/** Call batches of a simulated run: three or more calls of one answer, decided on as a whole. */
import { grantApproval, refuseApproval } from '../../core/decision-events/approvals.ts';
import { proposeCallBatch } from '../../core/decision-events/call-batches.ts';
import type { CallState } from '../../core/state.ts';
import type { People } from './simulated-people.ts';

/** Proposes the calls of the step as a call batch; what could be sent may have to wait for a person first. */
export function proposeCalls({ emit, state, pick, nextId }: People, calls: readonly CallState[]): void {
  const plan_id = nextId();
  const waiting = calls.filter((call) => call.mode === 'queued' && call.status === 'pending');
  const runsAlone = waiting.length === 0 || pick(2) === 0;
  const about = {
    approval_id: runsAlone ? '' : nextId(),
    plan_id,
    kind: 'approval' as const,
    tool: 'plan',
    digest: 'd',
    expires_in_seconds: 1,
    calls: waiting.map(({ id }) => id),
  };
  const steps = calls.map(({ id, name }) => ({ callId: id, tool: name, risk: 'WRITE_LOW_RISK' as const }));
  const asked = runsAlone ? undefined : { about };
  emit(...proposeCallBatch(state(), { id: plan_id, purpose: 'p', step: state().steps, steps, asked }));
}

/** A person decides on the call batch that the call is part of. */
export function decideOnCallBatch({ emit, state, pick }: People, call: CallState): void {
  const approvalId = call.approvalId ?? '';
  const held = state().calls.filter((each) => each.approvalId === approvalId && each.status === 'awaiting_approval');
  const calls = held.map(({ id }) => id);
  const approval = { approvalId, turnId: state().turn?.id, callBatchId: state().plan?.id, calls };
  if (pick(2) === 0) return emit(...grantApproval(approval, { digest: 'd', edited: false }));
  const refine = pick(2) === 1;
  return emit(...refuseApproval(approval, { kind: 'denied', decidedBy: undefined, message: 'm', refine }));
}
