/** Builds the request for a person to approve a call. */
import type { Asked } from '../../core/decision-events/approvals.ts';
import { approvalSeconds, type AgentDefinition } from '../../core/definition.ts';
import { digestOf } from '../../core/ids.ts';
import { newId } from '../../lib/new-id.ts';
import type { GateDecision } from '../governance/gate.ts';

/** Identifies what is approved: a tool's version, its arguments, and the version of the policy that asked. */
export function approvalDigest(
  tool: { id: string; version: string },
  args: Record<string, unknown>,
  policy: { id: string; version: number } | undefined,
): string {
  const asked = policy ? { id: policy.id, version: policy.version } : null;
  return digestOf({ tool: tool.id, version: tool.version, arguments: args, policy: asked });
}

/** The payload of the event that opens an approval of a call. */
export function approvalRequest(
  definition: AgentDefinition,
  call: { id: string; decision: Extract<GateDecision, { kind: 'ask' }>; seconds?: number | undefined },
): Asked['about'] {
  const { tool, arguments: args, by } = call.decision;
  return {
    approval_id: newId(),
    tool_call_id: call.id,
    kind: 'approval',
    tool: tool.name,
    digest: approvalDigest(tool, args, by.policy),
    expires_in_seconds: call.seconds ?? approvalSeconds(definition),
    message: call.decision.message,
    policy: by.policy,
    four_eyes: call.decision.fourEyes || (definition.execution_config?.four_eyes ?? false),
  };
}
