/** What a decision on an approval, or its end without one, means for the run: events, ledger rows, and a job. */
import { OUT_OF_BUDGET, type NewEvent } from '../../core/events.ts';
import { newId } from '../../lib/new-id.ts';
import type { PolicyRef } from '../../core/policy.ts';
import type { ApprovalRow } from '../../db/approvals.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { CallChange, OutboxRow } from '../../db/commit-run.ts';
import { bytesOf } from '../run-log/settlement.ts';
import type { AppendedChange } from '../run-log/append-to-run.ts';

/** An approval with the calls that wait for it: one, all steps of a plan, or none. */
export interface OpenApproval {
  run: RunRow;
  approval: ApprovalRow;
  calls: readonly string[];
}

interface DecidedBy {
  reason?: string | undefined;
  /** The key that decided. */
  key: string | undefined;
}

export interface Grant {
  digest: string;
  edited: boolean;
  /** The policy that asks as things stand. */
  policy: PolicyRef | null;
  key: string | undefined;
}

/** The calls may be made. */
export function granted(open: OpenApproval, { key, ...grant }: Grant): AppendedChange {
  const event: NewEvent = {
    ...byUser(open),
    type: 'approval.granted',
    payload: { ...about(open), ...grant, decided_by: key },
  };
  const calls = open.calls.map((id): CallChange => ({ id, from: ['awaiting_approval'], set: { status: 'pending' } }));
  const { id: approval_id, plan_id } = open.approval;
  const begun: NewEvent[] = plan_id
    ? [
        { ...byUser(open), type: 'plan.approved', payload: { plan_id, approval_id } },
        { ...bySystem(open), type: 'plan.started', payload: { plan_id } },
      ]
    : [];
  return { events: [event, ...begun], calls, ...wake(open.run) };
}

/** A person said no: nothing is called, and the model reads why. */
export function refused(open: OpenApproval, { reason, key }: DecidedBy): AppendedChange {
  const message = reason ? `A person denied the call: ${reason}` : 'A person denied the call.';
  const event: NewEvent = {
    ...byUser(open),
    type: 'approval.denied',
    payload: { ...about(open), ...(reason && { reason }), decided_by: key },
  };
  return closed(open, event, message);
}

/** Nobody has said anything in time. */
export function expired(open: OpenApproval): AppendedChange {
  const event: NewEvent = { ...bySystem(open), type: 'approval.expired', payload: about(open) };
  if (open.approval.kind === 'unknown') return { events: [event, ...resolved(open, 'unknown')], ...wake(open.run) };
  return closed(open, event, 'Nobody approved the call in time; it was not made.');
}

/** As things stand now the call may not be made, whatever a person says. `decided`: the events of that decision. */
export function lapsed(open: OpenApproval, message: string, decided: readonly NewEvent[]): AppendedChange {
  const event: NewEvent = {
    ...bySystem(open),
    type: 'approval.expired',
    payload: { ...about(open), reason: message },
  };
  const change = closed(open, event, message);
  return { ...change, events: [...decided, ...change.events] };
}

export type Settling = { decision: 'happened'; result: unknown } | { decision: 'rerun' | 'give_up' };

/** A person said what became of a call of unknown outcome. */
export function settled(open: OpenApproval, settling: Settling, { reason, key }: DecidedBy): AppendedChange {
  const { decision } = settling;
  const event: NewEvent = {
    ...byUser(open),
    type: 'approval.settled',
    payload: { ...about(open), decision, ...(reason && { reason }), decided_by: key },
  };
  const ends = decision === 'rerun' ? [] : resolved(open, decision === 'happened' ? 'succeeded' : 'unknown');
  const calls = open.calls.flatMap((id) => settledCall(id, settling));
  return { events: [event, ...ends], calls, ...wake(open.run) };
}

/** Whether a run may go on beyond a soft limit: no call in the ledger waits for it. */
export function isOfBudget(approval: ApprovalRow): boolean {
  return approval.tool === OUT_OF_BUDGET && !approval.tool_call_id && !approval.plan_id;
}

/** A run that waits is looked at again; one that is driven sees what was appended by itself. */
export function wake(run: RunRow): { outbox: OutboxRow[] } {
  const payload = { tenantId: run.tenant_id, runId: run.id, turnId: run.open_turn_id ?? undefined };
  return { outbox: [{ id: newId(), queue: 'turns', at_position: true, payload }] };
}

function about({ approval }: OpenApproval) {
  const { id, tool_call_id, plan_id } = approval;
  return { approval_id: id, ...(tool_call_id && { tool_call_id }), ...(plan_id && { plan_id }) };
}

const byUser = ({ approval }: OpenApproval) => ({ actor: 'user' as const, turn_id: approval.turn_id });
const bySystem = ({ approval }: OpenApproval) => ({ actor: 'system' as const, turn_id: approval.turn_id });

function closed(open: OpenApproval, event: NewEvent, message: string): AppendedChange {
  const error = { code: 'denied', message };
  const events = open.calls.map((id): NewEvent => ({
    ...bySystem(open),
    type: 'tool.denied',
    payload: { tool_call_id: id, error },
  }));
  const calls = open.calls.map((id) => refusedCall(id, error));
  const { plan_id } = open.approval;
  const rejected: NewEvent[] = plan_id
    ? [{ ...bySystem(open), type: 'plan.rejected', payload: { plan_id, reason: message } }]
    : [];
  return { events: [event, ...events, ...rejected], calls, ...wake(open.run) };
}

/** The row of a call that is not made. */
export function refusedCall(id: string, error: { code: string; message: string }): CallChange {
  return {
    id,
    from: ['awaiting_approval', 'pending', 'running'],
    set: { status: 'denied', output: error.message, is_error: true, error, finished_at: 'now' },
  };
}

function resolved(open: OpenApproval, outcome: 'succeeded' | 'unknown'): NewEvent[] {
  return open.calls.map((id) => ({
    ...byUser(open),
    type: 'tool.resolved',
    payload: { tool_call_id: id, outcome },
  }));
}

function settledCall(id: string, settling: Settling): CallChange[] {
  if (settling.decision === 'happened') {
    const output = settling.result ?? null;
    const set = { status: 'succeeded', output, is_error: false, output_bytes: bytesOf(output), error: null };
    return [{ id, from: ['unknown'], set }];
  }
  return settling.decision === 'rerun' ? [{ id, from: ['unknown'], set: { status: 'pending' } }] : [];
}
