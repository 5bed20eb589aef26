/** Decisions on the plan that a session waits with. */
import type { Caller } from '../../core/caller.ts';
import { textOf } from '../../core/content.ts';
import { conflict } from '../../core/errors.ts';
import { sessionStatus, type SessionStatus } from '../../core/session-status.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { Tx } from '../../db/database.ts';
import { findSessionPlan, touchSession, type SessionPlan, type SessionState } from '../../db/sessions.ts';
import { findTurn } from '../../db/turns.ts';
import { decideApproval } from '../approvals/decide-approval.ts';
import { refusePlan } from '../approvals/refuse-plan.ts';
import { recordAudit } from '../audit/record-audit.ts';
import type { Context } from '../governance/context.ts';
import { appendToRun } from '../run-log/append-to-run.ts';
import { announceInterruption, interruptedTurn } from '../runs/interrupt-turn.ts';
import { requireOpenSession } from './session.ts';

export interface PlanRef {
  caller: Caller;
  sessionId: string;
  planId: string;
}

/** A plan that was approved: `result` is the turn's answer, once it has one. */
export interface ExecutedPlan {
  status: SessionStatus;
  message: string;
  result?: string;
}

/**
 * Approves the plan; it is carried out at once. Throws 409 if it does not wait for a decision: while it is carried out,
 * too. One that has been carried out answers what came of it.
 */
export async function executePlan(context: Context, ref: PlanRef): Promise<ExecutedPlan> {
  const { caller, planId } = ref;
  const found = await readPlan(context, ref);
  const { plan, state } = found;
  if (plan.status === 'completed' || plan.status === 'completed_with_errors') return readResult(context, ref, found);
  const approvalId = mustWait(found);
  const { autonomy_level } = state.session;
  const details = { session_id: ref.sessionId, autonomy_level, automatic: false, tools: plan.steps.length };
  const also = async (tx: Tx) => {
    await touchSession(tx, ref.sessionId);
    await recordAudit(tx, caller, { action: 'plan.executed', target: ['plan', planId], details });
  };
  const { tenantId, workspaceId } = caller;
  await decideApproval(context, { tenantId, workspaceId, id: approvalId, by: caller, also }, { decision: 'approve' });
  return { status: 'executing', message: 'Plan execution started' };
}

/** Refuses the plan and ends the turn; a message that has waited begins the next one. Throws 409 if it does not wait. */
export async function rejectPlan(context: Context, ref: PlanRef, reason: string | undefined): Promise<SessionStatus> {
  const { caller } = ref;
  const found = await readPlan(context, ref);
  const approvalId = mustWait(found);
  const message = reason ? `A person rejected the plan: ${reason}` : 'A person rejected the plan.';
  const appended = await appendToRun(
    context,
    { tenantId: caller.tenantId, runId: found.plan.run_id },
    async (run: RunRow, tx) => {
      const decided = await refusePlan(tx, { run, approvalId, message, reason, by: caller });
      if (!decided) throw dead(ref.planId);
      await touchSession(tx, ref.sessionId);
      return interruptedTurn(tx, run, { reason: 'reject', error: { code: 'denied', message }, decided });
    },
  );
  if (appended) announceInterruption(context, appended);
  return readStatus(context, ref);
}

/** Refuses the plan and lets the model make another one with what a person has said about it. Throws 409 if it does not wait. */
export async function refinePlan(context: Context, ref: PlanRef, feedback: string): Promise<SessionStatus> {
  const { caller } = ref;
  const approvalId = mustWait(await readPlan(context, ref));
  const also = (tx: Tx) => touchSession(tx, ref.sessionId);
  const { tenantId, workspaceId } = caller;
  const decided = { decision: 'refine' as const, reason: feedback };
  await decideApproval(context, { tenantId, workspaceId, id: approvalId, by: caller, also }, decided);
  return readStatus(context, ref);
}

interface FoundPlan {
  plan: SessionPlan;
  state: SessionState;
}

async function readPlan(context: Context, { caller, sessionId, planId }: PlanRef): Promise<FoundPlan> {
  return context.db.withTenant(caller.tenantId, async (tx) => {
    const state = await requireOpenSession(tx, caller, sessionId);
    const plan = await findSessionPlan(tx, { sessionId, planId });
    if (!plan) throw conflict('The session has no such plan.', { pending_plan_id: state.pending?.plan_id ?? null });
    return { plan, state };
  });
}

/** The approval that waits. Throws 409. */
function mustWait({ plan, state }: FoundPlan): string {
  const { pending } = state;
  if (pending?.plan_id === plan.plan_id && pending.approval_id !== null) return pending.approval_id;
  if (plan.status === 'executing' || plan.status === 'approved') {
    throw conflict('The plan is being executed already.', { status_of_plan: plan.status });
  }
  throw dead(plan.plan_id, plan.status);
}

function dead(planId: string, status = 'decided') {
  return conflict(`The plan ${planId} does not wait for a decision: it is ${status}.`, { status_of_plan: status });
}

async function readStatus(context: Context, { caller, sessionId }: PlanRef): Promise<SessionStatus> {
  const state = await context.db.withTenant(caller.tenantId, (tx) => requireOpenSession(tx, caller, sessionId));
  return sessionStatus(state.facts);
}

async function readResult(context: Context, { caller }: PlanRef, { plan, state }: FoundPlan): Promise<ExecutedPlan> {
  const turn = await context.db.withTenant(caller.tenantId, (tx) => findTurn(tx, plan.run_id, plan.turn_id));
  const result = turn?.output ? textOf(turn.output) : undefined;
  const message = 'The plan has been executed.';
  return { status: sessionStatus(state.facts), message, ...(result !== undefined && { result }) };
}
