/** Closes the open calls, approvals and call batch of a run whose turn is ended from outside, in the same commit. */
import { settledEvent, type CallSettled } from '../../../core/decision-events/tool-calls.ts';
import type { NewEvent } from '../../../core/events.ts';
import { abandoned, settleForGood, UNKNOWN_OUTCOME } from '../../../core/ledger.ts';
import type { RemoteWork } from '../../../core/tool.ts';
import { listOpenApprovals } from '../../../db/approvals.ts';
import type { RunRow } from '../../../db/claim-run.ts';
import type { CallChange } from '../../../db/commit-run.ts';
import type { Tx } from '../../../db/database.ts';
import { findExecutingCallBatch } from '../../../db/call-batches.ts';
import { listOpenCalls, type OpenCall } from '../../../db/tool-calls.ts';
import { refusedCall } from '../../approvals/approval-outcome.ts';
import { givenUp, settlementChange } from '../../run-log/settlement.ts';

const ENDED = { cancelled: 'was cancelled', failed: 'failed' };

/** What is closed, and what the log says of it. */
interface ClosedCalls {
  calls: CallChange[];
  events: NewEvent[];
}

/**
 * Closes the calls of a run that ends. Calls not begun are refused. Calls made by its driver, and those that wait for a retry
 * after an attempt that may have had its effect, are settled here, since nobody else can. Calls made by other workers settle
 * in their own rows: the log, which ends here, has what is known of them now.
 */
export async function closeCalls(
  tx: Tx,
  run: Pick<RunRow, 'id' | 'open_turn_id'>,
  end: keyof typeof ENDED,
): Promise<ClosedCalls> {
  const why = (when: string) => ({ code: end, message: `The run ${ENDED[end]} ${when}.` });
  const closed = (await listOpenCalls(tx, run.id)).map((call) => {
    const isRunning = call.status === 'running';
    const isOthers = isRunning && call.mode === 'queued';
    if (call.remote && (isOthers || call.status === 'pending'))
      return { ...leftElsewhere(call, call.remote, why('during the call').message), isOthers };
    const closing = isRunning
      ? cutShort(call, why('during the call'))
      : (leftUnmade(call, why('between two attempts of the call')) ?? refused(call, why('before the call was made')));
    return { ...closing, isOthers };
  });
  return {
    calls: closed.flatMap(({ change, isOthers }) => (isOthers ? [] : [change])),
    events: closed.map(({ fact }) => eventOf(run, fact)),
  };
}

/**
 * Closes the calls of a turn that a person ends while the run continues, including those made by others, since the model must
 * now read their outcomes. A call that may have had its effect is `unknown`, and nobody is asked about it.
 */
export async function closeCallsOfTurn(
  tx: Tx,
  run: Pick<RunRow, 'id' | 'open_turn_id'>,
  error: { code: string; message: string },
): Promise<ClosedCalls> {
  const closed = (await listOpenCalls(tx, run.id)).map((call): ClosedCall => {
    if (call.remote && call.mode === 'queued') return leftElsewhere(call, call.remote, error.message);
    const isUnmade = call.status !== 'running' || call.mode === 'wait';
    const closing = (isUnmade ? leftUnmade(call, error) : cutShort(call, error)) ?? refused(call, error);
    // Also tells the model why.
    if (closing.fact.type === 'tool.unknown') {
      closing.change.set.model_output = [{ type: 'text', text: `${error.message} ${UNKNOWN_OUTCOME}` }];
    }
    return closing;
  });
  return { calls: closed.map(({ change }) => change), events: closed.map(({ fact }) => eventOf(run, fact)) };
}

/** Expires the open approvals, since no decision is needed any more. */
export async function closeApprovals(tx: Tx, run: Pick<RunRow, 'id' | 'open_turn_id'>): Promise<NewEvent[]> {
  const open = await listOpenApprovals(tx, run.id);
  const by = { actor: 'system' as const, turn_id: run.open_turn_id ?? undefined };
  return open.flatMap(({ id: approval_id, tool_call_id, plan_id }): NewEvent[] => {
    const about = { approval_id, ...(tool_call_id && { tool_call_id }), ...(plan_id && { plan_id }) };
    const expired: NewEvent = { ...by, type: 'approval.expired', payload: about };
    return plan_id ? [expired, { ...by, type: 'plan.rejected', payload: { plan_id } }] : [expired];
  });
}

/** Ends the executing call batch with the results so far. */
export async function closeCallBatch(tx: Tx, run: Pick<RunRow, 'id' | 'open_turn_id'>): Promise<NewEvent[]> {
  const batch = run.open_turn_id && (await findExecutingCallBatch(tx, run.id));
  if (!batch) return [];
  const status = batch.failed.length > 0 ? ('completed_with_errors' as const) : ('completed' as const);
  const payload = { plan_id: batch.id, status, failed: batch.failed };
  return [
    { type: 'plan.completed', actor: 'system', turn_id: run.open_turn_id ?? undefined, step: batch.step, payload },
  ];
}

interface ClosedCall {
  change: CallChange;
  fact: CallClosed;
}

/** The event that closes a call, without actor and turn. */
type CallClosed = CallSettled | Pick<Extract<NewEvent, { type: 'tool.denied' }>, 'type' | 'payload'>;

function eventOf({ open_turn_id: turn }: Pick<RunRow, 'open_turn_id'>, fact: CallClosed): NewEvent {
  return { ...fact, actor: 'system', turn_id: turn ?? undefined };
}

/** Settles a call whose work goes on elsewhere as failed; its row still shows that there is something to cancel. */
function leftElsewhere({ id, attempt }: OpenCall, remote: RemoteWork, message: string): ClosedCall {
  const settled = { callId: id, attempt, settlement: abandoned(remote, message), latencyMs: 0 };
  return { change: { ...settlementChange(settled), from: ['pending', 'running'] }, fact: settledEvent(settled) };
}

function cutShort(call: OpenCall, { code, message }: { code: string; message: string }): ClosedCall {
  const settlement = settleForGood({ kind: 'aborted', code, message }, call);
  const settled = { callId: call.id, attempt: call.attempt, settlement, latencyMs: 0 };
  return { change: settlementChange(settled), fact: settledEvent(settled) };
}

/** Undefined if no attempt of the call may have had its effect. */
function leftUnmade(call: OpenCall, why: { code: string; message: string }): ClosedCall | undefined {
  const unmade = givenUp(call, why);
  return unmade && { change: unmade.change, fact: settledEvent(unmade.settled) };
}

function refused({ id }: OpenCall, error: { code: string; message: string }): ClosedCall {
  return { change: refusedCall(id, error), fact: { type: 'tool.denied', payload: { tool_call_id: id, error } } };
}
