/** Handles a call that does not pass the gate any more before an attempt: it is refused, or people are asked again. */
import { askApproval } from '../../core/decision-events/approvals.ts';
import { settledEvent } from '../../core/decision-events/tool-calls.ts';
import type { NewEvent } from '../../core/events.ts';
import { canonicalJson } from '../../core/canonical-json.ts';
import { findGrant, type ApprovalRow } from '../../db/approvals.ts';
import type { Tx } from '../../db/database.ts';
import { findAsking } from '../../db/call-batches.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { LedgerCall } from '../../db/commit-run.ts';
import type { ToolCallRow } from '../../db/tool-calls.ts';
import { approvalDigest, approvalRequest } from '../approvals/approval-request.ts';
import { decisionEvents, obstacleTo } from '../governance/gate-call.ts';
import type { GateDecision } from '../governance/gate.ts';
import type { AppendedChange } from '../run-log/append-to-run.ts';
import { givenUp } from '../run-log/settlement.ts';
import { refusedCall } from '../approvals/approval-outcome.ts';
import type { Authorization } from './attempt.ts';

/** A call as it stands before its next attempt. */
type UnmadeCall = LedgerCall & Pick<ToolCallRow, 'status' | 'attempt'>;

/** The change for a call that may not be made now; undefined if it may. */
export async function recheckClaim(
  tx: Tx,
  { run, call }: { run: RunRow; call: UnmadeCall },
  { decision, pinned }: Authorization,
): Promise<AppendedChange | undefined> {
  const { step } = call;
  const events = decisionEvents(decision, { callId: call.id, turnId: call.turn_id, step });
  const obstacle = obstacleTo(decision);
  if (obstacle) return refused(call, { code: codeOf(decision), message: obstacle }, events);
  if (decision.kind !== 'ask') return undefined;
  const grant = await findGrant(tx, { runId: run.id, callId: call.id });
  if (grant && !isOfThis(grant, call, decision)) {
    return refused(call, { code: 'denied', message: 'The call is not the one that was approved.' }, []);
  }
  if (grant && isBy(await askedBy(tx, grant, call.id), decision)) return undefined;
  // Nobody was asked, or because of another policy or an older version: the approval is not valid any more.
  const about = approvalRequest(pinned.definition, { id: call.id, decision });
  const asked = askApproval(call.turn_id, { step, about });
  const set = { status: 'awaiting_approval' as const, ...(call.error && { error: call.error }) };
  return { events: [...events, asked], calls: [{ id: call.id, from: ['pending', 'running'], set }] };
}

type Asking = Extract<GateDecision, { kind: 'ask' }>;

/** Whether the approval is for exactly these arguments and this version of the tool. */
function isOfThis(grant: ApprovalRow, { id }: UnmadeCall, { tool, arguments: args }: Asking): boolean {
  if (grant.plan_id) {
    const { steps } = grant.arguments;
    const step = steps.find((each) => each.tool_call_id === id);
    return canonicalJson(step?.arguments) === canonicalJson(args);
  }
  if (canonicalJson(grant.arguments) !== canonicalJson(args)) return false;
  return grant.digest === approvalDigest(tool, args, grant.policy ?? undefined);
}

type Version = { id: string; version: number } | null | undefined;

/** The policy behind an approval; in a call batch each step has its own. */
async function askedBy(tx: Tx, grant: ApprovalRow, callId: string): Promise<Version> {
  return grant.plan_id ? findAsking(tx, { runId: grant.run_id, callId }) : grant.policy;
}

function isBy(policy: Version, { by }: Asking): boolean {
  return policy?.id === by.policy?.id && policy?.version === by.policy?.version;
}

function codeOf(decision: GateDecision): string {
  return 'code' in decision ? decision.code : 'policy_changed';
}

/** Refuses a call. If an earlier attempt may have had an effect, the outcome stays unknown. */
function refused(call: UnmadeCall, error: { code: string; message: string }, events: NewEvent[]): AppendedChange {
  const by = { actor: 'system' as const, turn_id: call.turn_id, step: call.step };
  const unmade = givenUp(call, error);
  if (unmade) return { events: [...events, { ...by, ...settledEvent(unmade.settled) }], calls: [unmade.change] };
  const denied: NewEvent = { ...by, type: 'tool.denied', payload: { tool_call_id: call.id, error } };
  return { events: [...events, denied], calls: [refusedCall(call.id, error)] };
}
