/** A person decides: on a call that waits for approval, or on what became of one whose outcome nobody knows. */
import { conflict, impossible, notFound } from '../core/errors.ts';
import { isTerminal, OUT_OF_BUDGET, type NewEvent, type RunStatus } from '../core/events.ts';
import { newId } from '../core/ids.ts';
import { findApproval, replaceArguments, type ApprovalRow } from '../db/approvals.ts';
import type { Tx } from '../db/database.ts';
import { findRunRow } from '../db/runs.ts';
import type { CallChange, OutboxRow, RunRow } from '../db/run-store.ts';
import { approvalDigest } from '../engine/ask-people.ts';
import type { Context } from '../engine/context.ts';
import { loadDefinitions } from '../engine/definitions.ts';
import { gateCall } from '../engine/gate-call.ts';
import { appendToRun, type AppendedChange } from './append-to-run.ts';
import { recordAudit, type AuditedBy } from './record-audit.ts';

export type ApprovalDecision =
  | { decision: 'approve' | 'deny'; reason?: string | undefined }
  | { decision: 'edit'; arguments: Record<string, unknown>; reason?: string | undefined }
  | { decision: 'happened'; result: unknown; reason?: string | undefined }
  | { decision: 'rerun' | 'give_up'; reason?: string | undefined };

interface ApprovalRef {
  tenant: string;
  id: string;
  workspaceId?: string | undefined;
  /** Whoever decides, for the audit log. */
  by?: AuditedBy;
}

/**
 * Decides. The same decision again changes nothing; another one, or one on a finished run, is 409. Edited arguments must
 * fit the tool's schema and pass the gate (422), and are what is then approved.
 */
export async function decideApproval(
  context: Context,
  ref: ApprovalRef,
  decided: ApprovalDecision,
): Promise<ApprovalRow> {
  const approval = await readApproval(context, ref);
  checkKind(approval, decided);
  const edited =
    decided.decision === 'edit' ? await checkEdit(context, ref, { approval, args: decided.arguments }) : undefined;
  await appendToRun(context, { tenant: ref.tenant, run: approval.run_id }, async (run, tx) => {
    const now = await findApproval(tx, ref.id);
    if (!now) throw notFound('The approval');
    if (now.status !== 'pending') return alreadyDecided(now, decided);
    if (isTerminal(run.status as RunStatus)) throw conflict(`The run is ${run.status} already.`);
    const digest = edited ?? now.digest;
    await auditDecision(tx, ref, { approval: now, decided, digest });
    if (isOfBudget(now)) return budgetDecision(run, now, decided);
    return changeFor(tx, { run, approval: now, decided, digest });
  });
  return readApproval(context, ref);
}

async function auditDecision(tx: Tx, ref: ApprovalRef, made: Omit<Deciding, 'run'>): Promise<void> {
  const { run_id, tool, kind, digest: asked } = made.approval;
  const { decision, reason } = made.decided;
  const { digest } = made;
  const details = { decision, kind, run_id, tool, ...(digest !== asked && { asked }), ...(reason && { reason }) };
  const by = ref.by ?? { tenantId: ref.tenant };
  await recordAudit(tx, by, { action: 'approval.decided', target: ['approval', ref.id], digest, details });
}

/** Nobody has decided in time: the model is told. False where somebody has, meanwhile. */
export async function expireApproval(context: Context, ref: ApprovalRef): Promise<boolean> {
  const approval = await readApproval(context, ref);
  const appended = await appendToRun(context, { tenant: ref.tenant, run: approval.run_id }, async (run, tx) => {
    const now = await findApproval(tx, ref.id);
    if (now?.status !== 'pending') return null;
    const by = { actor: 'system' as const, turn_id: now.turn_id };
    if (isOfBudget(now)) {
      return { events: [{ ...by, type: 'approval.expired', payload: { approval_id: now.id } }], ...wake(run) };
    }
    if (!now.tool_call_id) return null;
    const about = { approval_id: now.id, tool_call_id: now.tool_call_id };
    const expired: NewEvent = { ...by, type: 'approval.expired', payload: about };
    if (now.kind === 'unknown') return { events: [expired, resolved(now, 'unknown')], ...wake(run) };
    const message = 'Nobody approved the call in time; it was not made.';
    return { events: [expired, denied(now, message)], calls: [refusedCall(now.tool_call_id, message)], ...wake(run) };
  });
  return appended !== null;
}

async function readApproval(context: Context, ref: ApprovalRef): Promise<ApprovalRow> {
  const approval = await context.db.withTenant(ref.tenant, (tx) => findApproval(tx, ref.id, ref.workspaceId));
  if (!approval) throw notFound('The approval');
  return approval;
}

const DECISIONS: Record<ApprovalRow['kind'], readonly string[]> = {
  approval: ['approve', 'deny', 'edit'],
  unknown: ['happened', 'rerun', 'give_up'],
  conflict: [],
};

function checkKind(approval: ApprovalRow, { decision }: ApprovalDecision): void {
  const possible = DECISIONS[approval.kind];
  if (possible.includes(decision)) return;
  const message = `must be one of ${possible.join(', ')} for an approval of kind "${approval.kind}"`;
  throw impossible(`body.decision ${message}.`, [{ path: 'body.decision', message }]);
}

/** The digest of the edited call. */
async function checkEdit(
  context: Context,
  ref: ApprovalRef,
  { approval, args }: { approval: ApprovalRow; args: Record<string, unknown> },
): Promise<string> {
  const { db, governance: known } = context;
  const [run, governance] = await db.withTenant(ref.tenant, async (tx) => [
    await findRunRow(tx, approval.run_id),
    await known.current(tx, ref.tenant),
  ]);
  if (!run) throw notFound('The run');
  const pins = { agentId: run.agent_id, agentVersion: run.agent_version, tools: run.pinned.tools };
  const pinned = await loadDefinitions(db, { tenant: ref.tenant, ...pins });
  const call = { name: approval.tool, arguments: args, callsInTurn: 0, step: 0 };
  const decision = gateCall({ run, ...pinned, governance }, call);
  // A person has looked at it: only what nobody may allow still stands in the way.
  if (decision.kind === 'invalid' || decision.kind === 'deny' || decision.rewritten) {
    const message = decision.rewritten?.message ?? decision.message;
    throw impossible(message, [{ path: 'body.arguments', message }]);
  }
  return approvalDigest(decision.tool, args, decision.by.policy);
}

function alreadyDecided(approval: ApprovalRow, { decision }: ApprovalDecision): null {
  const same = approval.status === STATUS_AFTER[decision] && (approval.decision ?? decision) === decision;
  if (same) return null;
  throw conflict(`The approval is ${approval.status} already.`, { status_of_approval: approval.status });
}

const STATUS_AFTER: Record<ApprovalDecision['decision'], ApprovalRow['status']> = {
  approve: 'approved',
  edit: 'approved',
  deny: 'denied',
  happened: 'settled',
  rerun: 'settled',
  give_up: 'settled',
};

interface Deciding {
  run: RunRow;
  approval: ApprovalRow;
  decided: ApprovalDecision;
  digest: string;
}

async function changeFor(tx: Tx, { run, approval, decided, digest }: Deciding): Promise<AppendedChange> {
  const callId = approval.tool_call_id ?? '';
  const about = { approval_id: approval.id, tool_call_id: callId };
  const by = { actor: 'user' as const, turn_id: approval.turn_id };
  const { reason } = decided;
  switch (decided.decision) {
    case 'approve':
    case 'edit': {
      const edited = decided.decision === 'edit';
      if (edited) await replaceArguments(tx, { callId, approvalId: approval.id }, decided.arguments);
      const granted: NewEvent = { ...by, type: 'approval.granted', payload: { ...about, digest, edited } };
      return {
        events: [granted],
        calls: [{ id: callId, from: ['awaiting_approval'], set: { status: 'pending' } }],
        ...wake(run),
      };
    }
    case 'deny': {
      const message = reason ? `A person denied the call: ${reason}` : 'A person denied the call.';
      const event: NewEvent = { ...by, type: 'approval.denied', payload: { ...about, ...(reason && { reason }) } };
      return { events: [event, denied(approval, message)], calls: [refusedCall(callId, message)], ...wake(run) };
    }
    case 'happened':
    case 'rerun':
    case 'give_up': {
      const { decision } = decided;
      const event: NewEvent = {
        ...by,
        type: 'approval.settled',
        payload: { ...about, decision, ...(reason && { reason }) },
      };
      const ends = decision === 'rerun' ? [] : [resolved(approval, decision === 'happened' ? 'succeeded' : 'unknown')];
      return { events: [event, ...ends], calls: settledCall(callId, decided), ...wake(run) };
    }
  }
}

/** Whether a run may go on beyond a soft limit: no call in the ledger waits for it. */
function isOfBudget(approval: ApprovalRow): boolean {
  return approval.tool === OUT_OF_BUDGET && !approval.tool_call_id && !approval.plan_id;
}

function budgetDecision(run: RunRow, approval: ApprovalRow, { decision, reason }: ApprovalDecision): AppendedChange {
  const by = { actor: 'user' as const, turn_id: approval.turn_id };
  const { id: approval_id, digest } = approval;
  const event: NewEvent =
    decision === 'deny'
      ? { ...by, type: 'approval.denied', payload: { approval_id, ...(reason && { reason }) } }
      : { ...by, type: 'approval.granted', payload: { approval_id, digest, edited: false } };
  return { events: [event], ...wake(run) };
}

function settledCall(id: string, decided: ApprovalDecision): CallChange[] {
  if (decided.decision === 'happened') {
    const output = decided.result ?? null;
    const output_bytes = Buffer.byteLength(JSON.stringify(output));
    return [
      { id, from: ['unknown'], set: { status: 'succeeded', output, is_error: false, output_bytes, error: null } },
    ];
  }
  return decided.decision === 'rerun' ? [{ id, from: ['unknown'], set: { status: 'pending' } }] : [];
}

function refusedCall(id: string, message: string): CallChange {
  const error = { code: 'denied', message };
  return {
    id,
    from: ['awaiting_approval'],
    set: { status: 'denied', output: message, is_error: true, error, finished_at: 'now' },
  };
}

function denied(approval: ApprovalRow, message: string): NewEvent {
  const payload = { tool_call_id: approval.tool_call_id ?? '', error: { code: 'denied', message } };
  return { type: 'tool.denied', actor: 'system', turn_id: approval.turn_id, payload };
}

function resolved(approval: ApprovalRow, outcome: 'succeeded' | 'unknown'): NewEvent {
  const payload = { tool_call_id: approval.tool_call_id ?? '', outcome };
  return { type: 'tool.resolved', actor: 'user', turn_id: approval.turn_id, payload };
}

/** A run that waits is looked at again; one that is driven sees what was appended by itself. */
export function wake(run: RunRow): { outbox: OutboxRow[] } {
  return {
    outbox: [
      {
        id: newId(),
        queue: 'turns',
        payload: { tenant: run.tenant_id, run: run.id, turn: run.open_turn_id ?? undefined },
      },
    ],
  };
}
