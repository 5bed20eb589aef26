/** Lets a person decide on a call that waits for approval, or settle one of unknown outcome. */
import { conflict, forbidden, impossible, notFound } from '../../core/errors.ts';
import { isTerminal, type NewEvent } from '../../core/events.ts';
import { canonicalJson } from '../../core/canonical-json.ts';
import { isInDoubt } from '../../core/ledger.ts';
import type { PolicyRef } from '../../core/policy.ts';
import { bytesOf } from '../../core/tool-output.ts';
import { findApproval, findGrant, replaceArguments, type ApprovalRow } from '../../db/approvals.ts';
import { readWholeOutput } from '../../db/outputs.ts';
import { findRequesters } from '../../db/requesters.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { Tx } from '../../db/database.ts';
import { approvalDigest } from './approval-request.ts';
import { findToolCalls, type ToolCallRow } from '../../db/tool-calls.ts';
import type { Context } from '../governance/context.ts';
import { decisionEvents, obstacleTo } from '../governance/gate-call.ts';
import type { GateDecision } from '../governance/gate.ts';
import { appendToRun, type AppendedChange } from '../run-log/append-to-run.ts';
import {
  applyExpiry,
  applyGrant,
  isWithoutCall,
  applyLapse,
  applyRefinement,
  applyRefusal,
  applySettlement,
  isAnswered,
  type OpenApproval,
} from './approval-outcome.ts';
import { reauthorizeCall } from '../governance/reauthorize-call.ts';
import { reasonGiven, recordAudit, type AuditedBy } from '../audit/record-audit.ts';

export type ApprovalDecision =
  | { decision: 'approve' | 'deny'; reason?: string | undefined }
  /** For a session's call batch: the model proposes another one. */
  | { decision: 'refine'; reason: string }
  | { decision: 'edit'; arguments: Record<string, unknown>; reason?: string | undefined }
  | { decision: 'happened'; result: unknown; reason?: string | undefined }
  | { decision: 'rerun' | 'give_up'; reason?: string | undefined };

interface ApprovalRef {
  tenantId: string;
  id: string;
  workspaceId?: string | undefined;
  /** The decider: may be refused by four eyes, and is recorded in the audit log. */
  by?: AuditedBy;
  /** The decider also has a say in the turn in the same commit, so that four eyes refuse a grant. */
  isSaying?: boolean;
  /** Further writes in the decision's transaction. */
  also?: (tx: Tx) => Promise<void>;
}

/** The effect of a decision. `refusal`: the approval has ended in another way, as the decider is told. */
interface Made {
  change: AppendedChange;
  digest: string;
  refusal?: string;
}

/**
 * Decides. Repeating a decision changes nothing. Throws 409 for another decision, a finished run, or one that comes too
 * late (expired, or blocked by now); 403 if four eyes are required and the key had a say in the turn. Edited arguments
 * must fit the tool's schema and pass the gate (422), and are then approved.
 */
export async function decideApproval(
  context: Context,
  ref: ApprovalRef,
  decided: ApprovalDecision,
): Promise<ApprovalRow> {
  const { run_id: runId } = await readApproval(context, ref);
  let refusal: string | undefined;
  await appendToRun(context, { tenantId: ref.tenantId, runId }, async (run, tx) => {
    const made = await decideIn(context, tx, { run, ref, decided });
    refusal = made?.refusal;
    return made?.change ?? null;
  });
  if (refusal) throw conflict(refusal);
  return readApproval(context, ref);
}

interface Decided {
  run: RunRow;
  ref: ApprovalRef;
  decided: ApprovalDecision;
}

/**
 * The changes that a decision appends to its run, whose row is locked; null if the same decision was made before. With
 * a `refusal`, the change is the approval's other end, not a decision. Throws as `decideApproval` does.
 */
export async function decideIn(context: Context, tx: Tx, { run, ref, decided }: Decided): Promise<Made | null> {
  const now = await findApproval(tx, ref.id, ref.workspaceId);
  if (now?.run_id !== run.id) throw notFound('The approval');
  checkKind(now, decided);
  if (now.status !== 'pending') return alreadyDecided(tx, now, decided);
  const open = { run, approval: now, calls: await callsOf(tx, now) };
  if (isAnswered(open)) return { change: applyExpiry(open), digest: now.digest, refusal: ANSWERED };
  if (isTerminal(run.status)) throw conflict(`The run is ${run.status} already.`);
  const made = await make(context, tx, { open, decided, ref });
  if (!made.refusal) {
    await auditDecision(tx, ref, { approval: now, decided, digest: made.digest });
    if (decided.decision === 'approve') await auditExecution(tx, ref, { run, approval: now });
    await ref.also?.(tx);
  }
  return made;
}

const ANSWERED = 'The call has ended after all: nobody needs to say any more what became of it.';

/** Expires an approval, and tells the model. Returns false if it was decided meanwhile. */
export async function expireApproval(context: Context, ref: ApprovalRef): Promise<boolean> {
  const approval = await readApproval(context, ref);
  const appended = await appendToRun(context, { tenantId: ref.tenantId, runId: approval.run_id }, async (run, tx) => {
    const now = await findApproval(tx, ref.id);
    if (now?.status !== 'pending') return null;
    return applyExpiry({ run, approval: now, calls: await callsOf(tx, now) });
  });
  return appended !== null;
}

interface Deciding {
  open: OpenApproval;
  decided: ApprovalDecision;
  ref: ApprovalRef;
}

async function make(context: Context, tx: Tx, deciding: Deciding): Promise<Made> {
  const { open, decided, ref } = deciding;
  const { approval } = open;
  const { digest } = approval;
  const by = { reason: decided.reason, key: ref.by?.keyId };
  if (approval.is_due) return { change: applyExpiry(open), digest, refusal: 'The approval has expired.' };
  switch (decided.decision) {
    case 'deny':
      return { change: applyRefusal(open, by), digest };
    case 'refine':
      return { change: applyRefinement(open, decided.reason, by.key), digest };
    case 'approve':
    case 'edit':
      // Only arguments of a call can be edited.
      if (isWithoutCall(approval)) {
        return { change: applyGrant(open, { digest, edited: false, policy: null, ...by }), digest };
      }
      return approve(context, tx, { ...deciding, args: decided.decision === 'edit' ? decided.arguments : undefined });
    case 'happened':
      refuseWithoutRoom(open.run, decided.result, context.config.runOutputBytes);
      return { change: applySettlement(open, decided, by), digest };
    case 'rerun':
      await refuseRerun(tx, deciding);
      return { change: applySettlement(open, decided, by), digest };
    case 'give_up':
      return { change: applySettlement(open, decided, by), digest };
  }
}

function refuseWithoutRoom({ output_bytes }: RunRow, result: unknown, limitBytes: number): void {
  if (output_bytes + bytesOf(result ?? null) <= limitBytes) return;
  throw conflict(`The outputs of a run may come to ${limitBytes} bytes in all; there is no room for this result.`);
}

/** Passes the calls through the gate again: policies may have changed since the question. */
async function approve(
  context: Context,
  tx: Tx,
  { open, ref, decided, args: given }: Deciding & { args: Record<string, unknown> | undefined },
): Promise<Made> {
  const { run, approval } = open;
  const edited = given !== undefined;
  if (edited && open.calls.some(isInDoubt))
    throw impossible(MADE_BEFORE, [{ path: 'body.decision', message: MADE_BEFORE }]);
  const asking: { decision: Asking; callId: string }[] = [];
  let fourEyes = approval.four_eyes;
  let { digest } = approval;
  for (const { callId, args } of stepsOf(approval, given)) {
    const call = { ...inLedger(open, callId), arguments: args };
    const { decision, definition } = await reauthorizeCall(context, tx, { run, call });
    const obstacle = obstacleTo(decision);
    if (edited && obstacle) throw impossible(obstacle, [{ path: 'body.arguments', message: obstacle }]);
    if (obstacle) return lapse(open, obstacle, decisionEvents(decision, placeOf(approval, callId)));
    if (decision.kind === 'ask') asking.push({ decision, callId });
    fourEyes ||= definition.execution_config?.four_eyes ?? false;
    const policy = decision.kind === 'ask' ? decision.by.policy : undefined;
    if (!approval.plan_id && decision.tool) digest = approvalDigest(decision.tool, args, policy);
  }
  if (fourEyes || asking.some(({ decision }) => decision.fourEyes)) {
    await refuseRequester(tx, approval, ref);
  }
  if (edited) await replaceArguments(tx, { callId: open.calls[0]?.id ?? '', approvalId: approval.id }, given);
  const policy = approval.plan_id ? null : (asking[0]?.decision.by.policy ?? null);
  const change = applyGrant(open, { digest, edited, policy, reason: decided.reason, key: ref.by?.keyId });
  // Logs the policies under which a person approved; a single call's approval has them, unless they changed.
  const isChanged = approval.plan_id !== null || !isSame(policy, approval.policy);
  const decisions = asking.flatMap(({ decision, callId }) => decisionEvents(decision, placeOf(approval, callId)));
  return { change: { ...change, events: [...(isChanged ? decisions : []), ...change.events] }, digest };
}

/** Other arguments would reuse the idempotency key of an effect that may have happened. */
const MADE_BEFORE = 'An attempt of the call may have had its effect: it is made again as it was, or not at all.';

type Asking = Extract<GateDecision, { kind: 'ask' }>;

function lapse(open: OpenApproval, obstacle: string, decided: readonly NewEvent[]): Made {
  const refusal = `The approval has lapsed: ${obstacle}`;
  return { change: applyLapse(open, obstacle, decided), digest: open.approval.digest, refusal };
}

function placeOf(approval: ApprovalRow, callId: string) {
  return { callId, turnId: approval.turn_id, step: undefined };
}

async function callsOf(tx: Tx, approval: ApprovalRow): Promise<ToolCallRow[]> {
  if (!approval.tool_call_id && !approval.plan_id) return [];
  return findToolCalls(
    tx,
    stepsOf(approval, undefined).map(({ callId }) => callId),
  );
}

function inLedger({ calls }: OpenApproval, callId: string): ToolCallRow {
  const call = calls.find(({ id }) => id === callId);
  if (!call) throw new Error(`the ledger has no call ${callId}`);
  return call;
}

/** What is approved: one call, with a person's arguments if edited, or every step of a plan. */
function stepsOf(approval: ApprovalRow, given: Record<string, unknown> | undefined) {
  if (!approval.plan_id) {
    return [{ callId: approval.tool_call_id ?? '', args: given ?? approval.arguments }];
  }
  const { steps } = approval.arguments;
  return steps.map(({ tool_call_id: callId, arguments: args }) => ({ callId, args }));
}

function isSame(left: PolicyRef | null, right: PolicyRef | null): boolean {
  return left?.id === right?.id && left?.version === right?.version;
}

const FOUR_EYES =
  'This call needs four eyes: a key that asked for the turn, or had a say in it, may not approve it or have it made again.';

/** The call goes out again: what its first approval needed, this needs, too. */
async function refuseRerun(tx: Tx, { open, ref }: Deciding): Promise<void> {
  const { approval, calls } = open;
  for (const { id: callId } of calls) {
    const grant = await findGrant(tx, { runId: approval.run_id, callId });
    if (grant?.four_eyes) await refuseRequester(tx, approval, ref);
  }
}

/** Throws 403 for a key that had a say in the turn, or in what that stands on. */
async function refuseRequester(tx: Tx, approval: ApprovalRow, { by, isSaying }: ApprovalRef): Promise<void> {
  if (by?.keyId === undefined) return;
  const turn = { runId: approval.run_id, turnId: approval.turn_id };
  if (isSaying || (await findRequesters(tx, turn)).includes(by.keyId)) throw forbidden(FOUR_EYES);
}

async function auditDecision(
  tx: Tx,
  ref: ApprovalRef,
  made: { approval: ApprovalRow; decided: ApprovalDecision; digest: string },
): Promise<void> {
  const { run_id, tool, kind, digest: asked } = made.approval;
  const { decision, reason } = made.decided;
  const { digest } = made;
  const details = { decision, kind, run_id, tool, ...(digest !== asked && { asked }), ...reasonGiven(reason) };
  const by = ref.by ?? { tenantId: ref.tenantId };
  await recordAudit(tx, by, { action: 'approval.decided', target: ['approval', ref.id], digest, details });
}

/** Audits that a session's call batch is carried out; automatic ones are audited with their proposal. */
async function auditExecution(
  tx: Tx,
  ref: ApprovalRef,
  { run, approval }: { run: RunRow; approval: ApprovalRow },
): Promise<void> {
  const { autonomy_level, session } = run.config;
  if (session === undefined || !approval.plan_id) return;
  const details = {
    session_id: run.thread_id,
    user_id: session.user_id,
    autonomy_level,
    automatic: false,
    tools: approval.arguments.steps.length,
  };
  const by = ref.by ?? { tenantId: ref.tenantId };
  await recordAudit(tx, by, { action: 'plan.executed', target: ['plan', approval.plan_id], details });
}

async function readApproval(context: Context, ref: ApprovalRef): Promise<ApprovalRow> {
  const approval = await context.db.withTenant(ref.tenantId, (tx) => findApproval(tx, ref.id, ref.workspaceId));
  if (!approval) throw notFound('The approval');
  return approval;
}

const DECISIONS: Record<ApprovalRow['kind'], readonly string[]> = {
  approval: ['approve', 'deny', 'edit'],
  unknown: ['happened', 'rerun', 'give_up'],
  // Decided in `decide-conflict.ts`, as it belongs to no run.
  conflict: [],
};

function checkKind(approval: ApprovalRow, { decision }: ApprovalDecision): void {
  if (approval.plan_id && decision === 'refine') return;
  const isEditable = approval.plan_id === null && !isWithoutCall(approval);
  const possible = DECISIONS[approval.kind].filter((each) => each !== 'edit' || isEditable);
  if (possible.includes(decision)) return;
  const what = approval.plan_id
    ? 'a plan'
    : isWithoutCall(approval)
      ? `an approval of a ${approval.tool}`
      : `an approval of kind "${approval.kind}"`;
  const message = `must be one of ${possible.join(', ')} for ${what}`;
  throw impossible(`body.decision ${message}.`, [{ path: 'body.decision', message }]);
}

async function alreadyDecided(tx: Tx, approval: ApprovalRow, decided: ApprovalDecision): Promise<null> {
  if (decisionOf(approval) === decided.decision && (await isAsDecided(tx, approval, decided))) return null;
  throw conflict(`The approval is ${approval.status} already.`, { status_of_approval: approval.status });
}

/** Whether a decision brings the arguments or the result that the call has by now. */
async function isAsDecided(tx: Tx, approval: ApprovalRow, decided: ApprovalDecision): Promise<boolean> {
  if (decided.decision === 'edit') return canonicalJson(decided.arguments) === canonicalJson(approval.arguments);
  if (decided.decision !== 'happened') return true;
  const output = await readWholeOutput(tx, approval.tool_call_id ?? '');
  return canonicalJson(decided.result ?? null) === canonicalJson(output);
}

/** The decision that ended an approval; undefined if it ended without one. */
export function decisionOf({
  status,
  decision,
  original_arguments,
}: Pick<ApprovalRow, 'status' | 'decision' | 'original_arguments'>): string | undefined {
  if (status === 'settled') return decision ?? undefined;
  if (status === 'approved') return original_arguments ? 'edit' : 'approve';
  return status === 'denied' ? 'deny' : undefined;
}
