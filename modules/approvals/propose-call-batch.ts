/** Three or more calls in one answer form a call batch (docs/design/decisions.md): one decision, one end. */
import { beginningOf, textOf, type ToolUseBlock } from '../../core/content.ts';
import type { Asked } from '../../core/decision-events/approvals.ts';
import { proposeCallBatch } from '../../core/decision-events/call-batches.ts';
import { approvalSeconds } from '../../core/definition.ts';
import { digestOf } from '../../core/ids.ts';
import { newId } from '../../lib/new-id.ts';
import { LIMITS } from '../../core/limits.ts';
import type { ToolDefinition } from '../../core/tool.ts';
import type { GateDecision } from '../governance/gate.ts';
import { appendEvent } from '../run-log/run-log.ts';
import type { AskingRun } from './ask-about.ts';

/** A call of the answer with the gate's decision. `waits`: it is held until the call batch is approved. */
export interface CallBatchStep {
  id: string;
  use: ToolUseBlock;
  tool: ToolDefinition | undefined;
  decision: GateDecision | undefined;
  waits: boolean;
}

/** Records the call batch. If a step needs approval, asks once, for all steps that are to be made. */
export function recordCallBatch(run: AskingRun, steps: readonly CallBatchStep[], step: number): void {
  // A call of an unknown tool is listed, too: it is never made, so it is no risk.
  const recorded = steps.map(({ id, tool, use }) => {
    return { callId: id, tool: tool?.name ?? use.name, risk: tool?.risk_level ?? ('READ_ONLY' as const) };
  });
  const waiting = steps.filter(({ waits }) => waits);
  const plan_id = newId();
  const asked = waiting.length > 0 ? { about: askedAbout(run, plan_id, waiting) } : undefined;
  const batch = { id: plan_id, purpose: purposeOf(run), step, steps: recorded, asked };
  appendEvent(run.log, ...proposeCallBatch(run.log.state, batch));
}

function askedAbout({ definition }: AskingRun, plan_id: string, waiting: readonly CallBatchStep[]): Asked['about'] {
  const asking = waiting.flatMap(({ decision }) => (decision?.kind === 'ask' ? [decision] : []));
  const digest = digestOf({
    plan: waiting.map(({ tool, decision, use }) => ({
      tool: tool?.id,
      version: tool?.version,
      arguments: decision?.arguments ?? use.input,
      policy: decision?.by.policy ? { id: decision.by.policy.id, version: decision.by.policy.version } : null,
    })),
  });
  return {
    approval_id: newId(),
    plan_id,
    kind: 'approval',
    tool: 'plan',
    digest,
    expires_in_seconds: approvalSeconds(definition),
    message: [...new Set(asking.map(({ message }) => message))].join(' '),
    four_eyes: asking.some(({ fourEyes }) => fourEyes) || (definition.execution_config?.four_eyes ?? false),
    calls: waiting.map(({ id }) => id),
  };
}

/** The call batch's purpose: the model's text, else the user's message. */
function purposeOf({ log: { messages, state } }: AskingRun): string {
  const said = textOf(messages.at(-1)?.content ?? []).trim();
  return beginningOf(said || (state.turn?.input.message ?? ''), LIMITS.callBatchPurposeChars);
}
