/** Plans of a simulated run: three or more calls of one answer, decided on as a whole. */
import type { CallState, RunState } from '../../core/state.ts';
import type { People } from './simulated-people.ts';

const PROBLEM = { code: 'c', message: 'm' };

/** Proposes the calls of the step as a plan; what could be sent may have to wait for a person first. */
export function proposePlan({ emit, pick, nextId }: People, calls: readonly CallState[]): void {
  const plan_id = nextId();
  const steps = calls.map(({ id }) => ({ tool_call_id: id, tool: 't', risk_level: 'WRITE_LOW_RISK' as const }));
  const waiting = calls.filter((call) => call.mode === 'queued' && call.status === 'pending');
  const auto_executing = waiting.length === 0 || pick(2) === 0;
  const about = { plan_id, purpose: 'p', max_risk_level: 'WRITE_LOW_RISK' as const, auto_executing, steps };
  emit({ type: 'plan.proposed', actor: 'agent', payload: about });
  if (auto_executing) return emit({ type: 'plan.started', actor: 'worker', payload: { plan_id } });
  const asked = { kind: 'approval' as const, tool: 'plan', digest: 'd', expires_in_seconds: 1 };
  const payload = { ...asked, approval_id: nextId(), plan_id, calls: waiting.map(({ id }) => id) };
  return emit({ type: 'approval.requested', actor: 'system', payload });
}

/** A person decides on the plan that the call is part of. */
export function decideOnPlan({ emit, pick }: People, state: RunState, call: CallState): void {
  const plan_id = state.plan?.id ?? '';
  const approval_id = call.approvalId ?? '';
  const held = state.calls.filter((each) => each.approvalId === approval_id && each.status === 'awaiting_approval');
  if (pick(2) === 0) {
    emit({ type: 'approval.granted', actor: 'user', payload: { approval_id, plan_id, digest: 'd', edited: false } });
    emit({ type: 'plan.approved', actor: 'user', payload: { plan_id, approval_id } });
    return emit({ type: 'plan.started', actor: 'system', payload: { plan_id } });
  }
  emit({ type: 'approval.denied', actor: 'user', payload: { approval_id, plan_id } });
  emit({ type: 'plan.rejected', actor: 'system', payload: { plan_id } });
  for (const { id } of held) {
    emit({ type: 'tool.denied', actor: 'system', payload: { tool_call_id: id, error: PROBLEM } });
  }
}

/** Before the model is asked, and where the turn ends: every step of the open plan has come to its end. */
export function completePlan({ emit }: People, state: RunState): void {
  if (!state.plan) return;
  const { id: plan_id, calls } = state.plan;
  const failed = state.calls
    .filter(({ id, status }) => calls.includes(id) && status !== 'succeeded')
    .map(({ id }) => ({ tool_call_id: id, tool: 't' }));
  const status = failed.length > 0 ? ('completed_with_errors' as const) : ('completed' as const);
  emit({ type: 'plan.completed', actor: 'worker', payload: { plan_id, status, failed } });
}
