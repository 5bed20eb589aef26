/** Three or more calls in one answer are a plan (docs/design/decisions.md): one decision on the whole, one end. */
import { textOf, type ToolUseBlock } from '../../../core/content.ts';
import { digestOf } from '../../../core/ids.ts';
import { newId } from '../../../lib/new-id.ts';
import { LIMITS } from '../../../core/limits.ts';
import { RISK_LEVELS, type ToolDefinition } from '../../../core/tool.ts';
import type { GateDecision } from '../../governance/gate.ts';
import { approvalSeconds } from '../../approvals/approval-request.ts';
import { appendEvent } from '../../run-log/run-log.ts';
import type { DriveSession } from './session.ts';

/** A call of the answer with what the gate said. `waits`: it is held until the plan is approved. */
export interface PlanStep {
  id: string;
  use: ToolUseBlock;
  tool: ToolDefinition | undefined;
  decision: GateDecision | undefined;
  waits: boolean;
}

/** Records the plan, and asks about it where a step may not run alone: once, for all steps that are to be made. */
export function proposePlan(session: DriveSession, steps: readonly PlanStep[], step: number): void {
  const by = { actor: 'agent' as const, turn_id: session.log.state.turn?.id, step };
  const known = steps.flatMap(({ id, tool }) =>
    tool ? [{ tool_call_id: id, tool: tool.name, risk_level: tool.risk_level }] : [],
  );
  const highest = Math.max(0, ...known.map(({ risk_level }) => RISK_LEVELS.indexOf(risk_level)));
  const waiting = steps.filter(({ waits }) => waits);
  const plan_id = newId();
  const max_risk_level = RISK_LEVELS[highest] ?? 'WRITE_HIGH_RISK';
  const auto_executing = waiting.length === 0;
  const about = { plan_id, purpose: purposeOf(session), max_risk_level, auto_executing, steps: known };
  appendEvent(session.log, { ...by, type: 'plan.proposed', payload: about });
  if (auto_executing) appendEvent(session.log, { ...by, actor: 'worker', type: 'plan.started', payload: { plan_id } });
  else askAboutPlan(session, { plan_id, waiting, step });
}

function askAboutPlan(
  session: DriveSession,
  { plan_id, waiting, step }: { plan_id: string; waiting: readonly PlanStep[]; step: number },
): void {
  const asking = waiting.flatMap(({ decision }) => (decision?.kind === 'ask' ? [decision] : []));
  const { definition } = session;
  const digest = digestOf({
    plan: waiting.map(({ tool, decision, use }) => ({
      tool: tool?.id,
      version: tool?.version,
      arguments: decision?.arguments ?? use.input,
      policy: decision?.by.policy ? { id: decision.by.policy.id, version: decision.by.policy.version } : null,
    })),
  });
  appendEvent(session.log, {
    type: 'approval.requested',
    actor: 'system',
    turn_id: session.log.state.turn?.id,
    step,
    payload: {
      approval_id: newId(),
      plan_id,
      kind: 'approval',
      tool: 'plan',
      digest,
      expires_in_seconds: approvalSeconds(definition),
      message: [...new Set(asking.map(({ message }) => message))].join(' '),
      four_eyes: asking.some(({ fourEyes }) => fourEyes) || (definition.execution_config?.four_eyes ?? false),
      calls: waiting.map(({ id }) => id),
    },
  });
}

/** What the model says that it is about, else what the user wants. */
function purposeOf({ log: { messages, state } }: DriveSession): string {
  const said = textOf(messages.at(-1)?.content ?? []).trim();
  return (said || (state.turn?.input.message ?? '')).slice(0, LIMITS.planPurposeChars);
}

/** Every step of the open plan has its result, or never will: says so in the log. */
export function completePlan(session: DriveSession): void {
  const { plan, calls, turn, steps: step } = session.log.state;
  if (!plan) return;
  const failed = calls
    .filter(({ id, status }) => plan.calls.includes(id) && status !== 'succeeded')
    .map(({ id, name }) => ({ tool_call_id: id, tool: name }));
  const status = failed.length > 0 ? ('completed_with_errors' as const) : ('completed' as const);
  const payload = { plan_id: plan.id, status, failed };
  appendEvent(session.log, { type: 'plan.completed', actor: 'worker', turn_id: turn?.id, step, payload });
}
