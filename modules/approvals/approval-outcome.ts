/** The effects of a decision on an approval, or of its end without one, on the run: events, ledger rows, and a job. */
import {
  expireQuestion,
  grantApproval,
  refuseApproval,
  settleApproval,
  type DecidedApproval,
  type Refusal,
} from '../../core/decision-events/approvals.ts';
import { settledEvent } from '../../core/decision-events/tool-calls.ts';
import { isTerminal, OUT_OF_BUDGET, SUBTASK, type NewEvent } from '../../core/events.ts';
import type { MessageOrigin } from '../../core/origin.ts';
import { outputColumns } from '../../core/tool-output.ts';
import type { PolicyRef } from '../../core/policy.ts';
import type { ApprovalRow } from '../../db/approvals.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { CallChange } from '../../db/commit-run.ts';
import type { ToolCallRow } from '../../db/tool-calls.ts';
import type { AppendedChange } from '../run-log/append-to-run.ts';
import { givenUp } from '../run-log/settlement.ts';
import { turnJobOf } from '../run-log/turn-job.ts';

/** An approval and the calls that wait for it: one, all steps of a call batch, or none. */
export interface OpenApproval {
  run: RunRow;
  approval: ApprovalRow;
  calls: readonly ToolCallRow[];
}

interface DecidedBy {
  reason?: string | undefined;
  /** The key that decided. */
  key: string | undefined;
}

interface Grant extends DecidedBy {
  digest: string;
  edited: boolean;
  /** The policy that currently asks for approval. */
  policy: PolicyRef | null;
}

/** Permits the calls. */
export function applyGrant(open: OpenApproval, { key, reason, ...grant }: Grant): AppendedChange {
  const events = grantApproval(decided(open), { ...grant, ...(reason && { reason }), decided_by: key });
  const calls = open.calls.map(({ id }): CallChange => ({
    id,
    from: ['awaiting_approval'],
    set: { status: 'pending' },
  }));
  return { events, calls, outbox: [turnJobOf(open.run)] };
}

/** A person denied: nothing is called, and the model reads the reason. */
export function applyRefusal(open: OpenApproval, { reason, key }: DecidedBy): AppendedChange {
  const message = reason ? `A person denied the call: ${reason}` : 'A person denied the call.';
  const refusal: Refusal = { kind: 'denied', reason, decidedBy: key, message };
  return closed(open, refusal, reason ? 'user' : 'drover');
}

/** A person asked for another call batch: the model reads the feedback, and goes on. */
export function applyRefinement(open: OpenApproval, feedback: string, key: string | undefined): AppendedChange {
  const message = `A person wants another plan: ${feedback}`;
  return closed(open, { kind: 'denied', reason: feedback, decidedBy: key, message, refine: true }, 'user');
}

/** The approval expired undecided. A question about a call that is settled by now expires alone: the call stays as it is. */
export function applyExpiry(open: OpenApproval): AppendedChange {
  if (open.approval.kind === 'unknown') {
    const calls = open.calls.filter(({ status }) => status === 'unknown');
    const events = expireQuestion(decided({ ...open, calls }));
    return { events, outbox: isTerminal(open.run.status) ? [] : [turnJobOf(open.run)] };
  }
  return closed(open, { kind: 'expired', message: 'Nobody approved the call in time; it was not made.' });
}

/** The current policies forbid the call, whatever a person says. `events`: those of that decision. */
export function applyLapse(open: OpenApproval, message: string, events: readonly NewEvent[]): AppendedChange {
  const change = closed(open, { kind: 'expired', reason: message, message });
  return { ...change, events: [...events, ...change.events] };
}

type Settling = { decision: 'happened'; result: unknown } | { decision: 'rerun' | 'give_up' };

/** A person settled a call of unknown outcome. */
export function applySettlement(open: OpenApproval, settling: Settling, { reason, key }: DecidedBy): AppendedChange {
  const { decision } = settling;
  const events = settleApproval(decided(open), { decision, reason, decidedBy: key });
  const calls = open.calls.flatMap(({ id }) => settledCall(id, settling));
  return { events, calls, outbox: [turnJobOf(open.run)] };
}

/** Whether it asks what became of a call that has ended after all: processes of 0.1.0 ask even if the call ends meanwhile. */
export function isAnswered({ approval, calls }: Pick<OpenApproval, 'approval' | 'calls'>): boolean {
  return approval.kind === 'unknown' && calls.every(({ status }) => status !== 'unknown');
}

const WITHOUT_CALL: readonly string[] = [OUT_OF_BUDGET, SUBTASK];

/** Whether it is about a soft limit or a retry of a subtask, so that no call in the ledger waits for it. */
export function isWithoutCall(approval: ApprovalRow): boolean {
  return WITHOUT_CALL.includes(approval.tool) && !approval.tool_call_id && !approval.plan_id;
}

function decided({ approval, calls }: Pick<OpenApproval, 'approval' | 'calls'>): DecidedApproval {
  const { id: approvalId, turn_id: turnId, tool_call_id, plan_id } = approval;
  const ids = calls.map(({ id }) => id);
  return { approvalId, turnId, callId: tool_call_id ?? undefined, callBatchId: plan_id ?? undefined, calls: ids };
}

/**
 * Closes calls that are not made; one whose earlier attempt may have had its effect gets an unknown outcome. `origin`:
 * the source of the message, which may quote a person.
 */
function closed(open: OpenApproval, refusal: Refusal, origin: MessageOrigin = 'drover'): AppendedChange {
  const error = { code: 'denied', message: refusal.message };
  const unmade = open.calls.flatMap((call) => givenUp(call, error) ?? []);
  const isUnmade = ({ id }: ToolCallRow) => unmade.some(({ settled }) => settled.callId === id);
  const denied = open.calls.filter((call) => !isUnmade(call));
  const by = { actor: 'system' as const, turn_id: open.approval.turn_id };
  return {
    events: [
      ...refuseApproval(decided({ ...open, calls: denied }), refusal),
      ...unmade.map(({ settled }) => ({ ...by, ...settledEvent(settled) })),
    ],
    calls: [...denied.map(({ id }) => refusedCall(id, error, origin)), ...unmade.map(({ change }) => change)],
    outbox: [turnJobOf(open.run)],
  };
}

/** The ledger row of a call that is not made. */
export function refusedCall(
  id: string,
  error: { code: string; message: string },
  origin: MessageOrigin = 'drover',
): CallChange {
  return {
    id,
    from: ['awaiting_approval', 'pending', 'running'],
    set: { status: 'denied', output: error.message, origin, is_error: true, error, finished_at: 'now' },
  };
}

function settledCall(id: string, settling: Settling): CallChange[] {
  if (settling.decision === 'happened') {
    const set = {
      status: 'succeeded' as const,
      ...outputColumns(settling.result ?? null),
      origin: 'user' as const,
      is_error: false,
      error: null,
    };
    return [{ id, from: ['unknown'], set }];
  }
  return settling.decision === 'rerun' ? [{ id, from: ['unknown'], set: { status: 'pending' } }] : [];
}
