/** Decisions on a session's waiting call batch. */
import type { Caller } from '../../core/caller.ts';
import { conflict } from '../../core/errors.ts';
import { sessionStatus, type SessionStatus } from '../../core/session-status.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { Tx } from '../../db/database.ts';
import {
  findLastNodeType,
  findSessionCallBatch,
  touchSession,
  type SessionCallBatch,
  type SessionState,
} from '../../db/sessions.ts';
import { decideApproval } from '../approvals/decide-approval.ts';
import { refuseCallBatch } from '../approvals/refuse-call-batch.ts';
import type { Context } from '../governance/context.ts';
import { appendToRun } from '../run-log/append-to-run.ts';
import { announceInterruption, interruptedTurn } from '../runs/interrupt-turn.ts';
import { resultOf, wasRejected } from './decided-call-batch.ts';
import { requireOpenSession } from './session.ts';

interface CallBatchRef {
  caller: Caller;
  sessionId: string;
  callBatchId: string;
}

/** An approved call batch. `result`: the outcome of one executed earlier. */
interface ExecutedCallBatch {
  status: SessionStatus;
  message: string;
  result?: string;
}

/**
 * Approves the call batch, which then executes; for one executed earlier, returns its result. Throws 409 if it does not wait
 * for a decision, as during execution, or after its turn was ended.
 */
export async function executeCallBatch(context: Context, ref: CallBatchRef): Promise<ExecutedCallBatch> {
  const { caller } = ref;
  const found = await readCallBatch(context, ref);
  if (isCarriedOut(found)) return readResult(context, ref, found);
  const approvalId = mustWait(found);
  let isStarted = false;
  const also = async (tx: Tx) => {
    await touchSession(tx, ref.sessionId);
    isStarted = true;
  };
  const { tenantId, workspaceId } = caller;
  await decideApproval(context, { tenantId, workspaceId, id: approvalId, by: caller, also }, { decision: 'approve' });
  if (isStarted) return { status: 'executing', message: 'Plan execution started' };
  // Someone else approved it at the same moment.
  const now = await readCallBatch(context, ref);
  if (isCarriedOut(now)) return readResult(context, ref, now);
  throw isUnderWay(now);
}

function isCarriedOut({ batch }: FoundCallBatch): boolean {
  return batch.status === 'completed' || batch.status === 'completed_with_errors';
}

function isUnderWay({ batch }: FoundCallBatch) {
  return conflict('The plan is being executed already.', { status_of_plan: batch.status });
}

/**
 * Rejects the call batch and ends the turn; a waiting message begins the next one. Repeating it changes nothing. Throws 409 if
 * the batch does not wait.
 */
export async function rejectCallBatch(
  context: Context,
  ref: CallBatchRef,
  reason: string | undefined,
): Promise<SessionStatus> {
  const { caller } = ref;
  const found = await readCallBatch(context, ref);
  // Checks its state again: the rejection may have come between the two reads.
  if (await isRejected(context, ref, found)) return readStatus(context, ref);
  const approvalId = mustWait(found);
  const message = reason ? `A person rejected the plan: ${reason}` : 'A person rejected the plan.';
  const appended = await appendToRun(
    context,
    { tenantId: caller.tenantId, runId: found.batch.run_id },
    async (run: RunRow, tx) => {
      const decided = await refuseCallBatch(tx, { run, approvalId, message, reason, by: caller });
      if (!decided) return null;
      await touchSession(tx, ref.sessionId);
      return interruptedTurn(tx, run, { reason: 'reject', error: { code: 'denied', message }, decided });
    },
  );
  if (appended) announceInterruption(context, appended);
  // Someone else decided at the same moment.
  else if (!(await isRejected(context, ref, await readCallBatch(context, ref)))) throw dead(ref.callBatchId);
  return readStatus(context, ref);
}

async function isRejected(context: Context, { caller }: CallBatchRef, { batch }: FoundCallBatch): Promise<boolean> {
  if (batch.status !== 'rejected') return false;
  return context.db.withTenant(caller.tenantId, (tx) => wasRejected(tx, batch));
}

/**
 * Rejects the call batch, and lets the model make another with the person's feedback. Throws 409 if the batch does not wait,
 * or was not made by a model.
 */
export async function refineCallBatch(context: Context, ref: CallBatchRef, feedback: string): Promise<SessionStatus> {
  const { caller } = ref;
  const found = await readCallBatch(context, ref);
  const approvalId = mustWait(found);
  await requireModel(context, ref, found);
  const also = (tx: Tx) => touchSession(tx, ref.sessionId);
  const { tenantId, workspaceId } = caller;
  const decided = { decision: 'refine' as const, reason: feedback };
  await decideApproval(context, { tenantId, workspaceId, id: approvalId, by: caller, also }, decided);
  return readStatus(context, ref);
}

/** Throws 409 if a graph's node made the batch: it has no other call to make. */
async function requireModel(context: Context, { caller }: CallBatchRef, { batch }: FoundCallBatch): Promise<void> {
  const type = await context.db.withTenant(caller.tenantId, (tx) => findLastNodeType(tx, batch));
  if (type !== 'tool' && type !== 'human') return;
  throw conflict(
    `The plan is what a ${type} node of the agent's graph asks for: no model would make another one. Execute it or reject it.`,
  );
}

interface FoundCallBatch {
  batch: SessionCallBatch;
  state: SessionState;
}

async function readCallBatch(
  context: Context,
  { caller, sessionId, callBatchId }: CallBatchRef,
): Promise<FoundCallBatch> {
  return context.db.withTenant(caller.tenantId, async (tx) => {
    const state = await requireOpenSession(tx, caller, sessionId);
    const batch = await findSessionCallBatch(tx, { sessionId, callBatchId });
    if (!batch) throw conflict('The session has no such plan.', { pending_plan_id: state.pending?.plan_id ?? null });
    return { batch, state };
  });
}

/** The id of the waiting approval. Throws 409 if there is none. */
function mustWait(found: FoundCallBatch): string {
  const { batch, state } = found;
  const { pending } = state;
  if (pending?.plan_id === batch.plan_id && pending.approval_id !== null) return pending.approval_id;
  if (batch.status === 'executing' || batch.status === 'approved') throw isUnderWay(found);
  throw dead(batch.plan_id, batch.status);
}

function dead(callBatchId: string, status = 'decided') {
  return conflict(`The plan ${callBatchId} does not wait for a decision: it is ${status}.`, { status_of_plan: status });
}

async function readStatus(context: Context, { caller, sessionId }: CallBatchRef): Promise<SessionStatus> {
  const state = await context.db.withTenant(caller.tenantId, (tx) => requireOpenSession(tx, caller, sessionId));
  return sessionStatus(state.facts);
}

async function readResult(
  context: Context,
  { caller }: CallBatchRef,
  { batch, state }: FoundCallBatch,
): Promise<ExecutedCallBatch> {
  const result = await context.db.withTenant(caller.tenantId, (tx) => resultOf(tx, batch));
  return { status: sessionStatus(state.facts), message: 'The plan has been executed.', result };
}
