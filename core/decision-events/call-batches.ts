/** Events of a call batch: three or more calls of one answer, decided on as a whole (docs/design/decisions.md). */
import type { NewEvent } from '../events.ts';
import type { RunState } from '../state.ts';
import { highestRisk, type RiskLevel } from '../tool.ts';
import { askApproval, type Asked } from './approvals.ts';

interface ProposedCallBatch {
  id: string;
  purpose: string;
  step: number;
  /** All its calls in order, including those of unknown tools. */
  steps: readonly { callId: string; tool: string; risk: RiskLevel }[];
  /** The approval to ask for, if a step may not run alone; absent if the batch runs by itself. */
  asked?: Omit<Asked, 'step'> | undefined;
}

/** Proposes a call batch, and asks for approval or starts it. */
export function proposeCallBatch(state: RunState, batch: ProposedCallBatch): NewEvent[] {
  const { id: plan_id, purpose, step, steps, asked } = batch;
  const by = { turn_id: state.turn?.id, step };
  const payload = {
    plan_id,
    purpose,
    max_risk_level: highestRisk(steps.map(({ risk }) => risk)),
    auto_executing: !asked,
    steps: steps.map(({ callId, tool, risk }) => ({ tool_call_id: callId, tool, risk_level: risk })),
  };
  return [
    { ...by, actor: 'agent', type: 'plan.proposed', payload },
    asked
      ? askApproval(by.turn_id, { ...asked, step })
      : { ...by, actor: 'worker', type: 'plan.started', payload: { plan_id } },
  ];
}

/** Completes the open call batch, since no step will get another result: before the next model call, or at the end of the turn. */
export function completeCallBatch({ plan: batch, calls, turn, steps: step }: RunState): NewEvent[] {
  if (!batch) return [];
  const failed = calls
    .filter(({ id, status }) => batch.calls.includes(id) && status !== 'succeeded')
    .map(({ id, name }) => ({ tool_call_id: id, tool: name }));
  const status = failed.length > 0 ? ('completed_with_errors' as const) : ('completed' as const);
  const payload = { plan_id: batch.id, status, failed };
  return [{ type: 'plan.completed', actor: 'worker', turn_id: turn?.id, step, payload }];
}
