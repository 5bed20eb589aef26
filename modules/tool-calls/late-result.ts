/** Handles attempts that were taken for lost, but have ended. */
import { withdrawQuestion } from '../../core/decision-events/approvals.ts';
import { resolveLate, type SettledAs } from '../../core/decision-events/tool-calls.ts';
import { isTerminal } from '../../core/events.ts';
import { attemptError, mayHaveHappened, settleForGood } from '../../core/ledger.ts';
import type { ToolOutcome } from '../../core/tool.ts';
import { findOpenQuestion } from '../../db/approvals.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { CallChange } from '../../db/commit-run.ts';
import type { Tx } from '../../db/database.ts';
import type { ToolCallRow } from '../../db/tool-calls.ts';
import { turnJobOf } from '../run-log/turn-job.ts';
import type { AppendedChange } from '../run-log/append-to-run.ts';
import { settlementChange, withinOutputLimit } from '../run-log/settlement.ts';

/** The outcome of such an attempt. */
export interface LateResult {
  outcome: ToolOutcome;
  latencyMs: number;
}

/**
 * Settles a call of unknown outcome by its last attempt's result; null if that tells nothing. Withdraws the question to a
 * person. An attempt without effect is repeated if the run still waits for that person's answer, and has failed if the model
 * was already told. The log of an ended run is closed; only the ledger is updated.
 */
export async function applyLateResult(
  tx: Tx,
  { run, call, limitBytes }: { run: RunRow; call: ToolCallRow; limitBytes: number },
  { outcome, latencyMs }: LateResult,
): Promise<AppendedChange | null> {
  if (outcome.kind === 'elsewhere') return lateWork(tx, { run, call }, outcome);
  if (mayHaveHappened(outcome)) return null;
  const room = { storedBytes: run.output_bytes, limitBytes };
  const settlement: SettledAs = withinOutputLimit(settleForGood(outcome, call), room);
  const settled = { callId: call.id, attempt: call.attempt, settlement, latencyMs };
  const change: CallChange = { ...settlementChange(settled), from: ['unknown'] };
  // An earlier attempt may have had the effect that this one did not have.
  const isOpen = settlement.status === 'unknown';
  if (isTerminal(run.status)) return isOpen ? null : { events: [], calls: [change] };
  const question = await findOpenQuestion(tx, { runId: run.id, callId: call.id });
  const asked = question && { approvalId: question.id, turnId: call.turn_id, callId: call.id, calls: [call.id] };
  if (asked && (outcome.kind === 'unreached' || outcome.kind === 'aborted')) {
    const { code, message } = outcome;
    const reason = `The call had no effect: ${message}`;
    const perhapsIn = isOpen ? settlement.perhapsIn : undefined;
    const error = attemptError({ code, message, perhapsIn });
    const again: CallChange = { ...change, set: { status: 'pending', error } };
    return {
      events: [withdrawQuestion(asked, { decision: 'rerun', reason })],
      calls: [again],
      outbox: [turnJobOf(run)],
    };
  }
  if (isOpen) return null;
  const reason = 'The call has ended after all.';
  const withdrawn = asked ? [withdrawQuestion(asked, { decision: 'happened', reason })] : [];
  const events = [...withdrawn, resolveLate(call, settled)];
  return { events, calls: [change], outbox: [turnJobOf(run)] };
}

/** The attempt has begun work elsewhere: it is looked at if the run still waits for it, otherwise cancelled. */
async function lateWork(
  tx: Tx,
  { run, call }: { run: RunRow; call: ToolCallRow },
  { code, message, remote }: Extract<ToolOutcome, { kind: 'elsewhere' }>,
): Promise<AppendedChange> {
  const question = isTerminal(run.status) ? undefined : await findOpenQuestion(tx, { runId: run.id, callId: call.id });
  const change: CallChange = { id: call.id, from: ['unknown'], attempt: call.attempt, set: { remote } };
  if (!question) return { events: [], calls: [change] };
  const about = { approvalId: question.id, turnId: call.turn_id, callId: call.id, calls: [call.id] };
  const again: CallChange = { ...change, set: { status: 'pending', remote, error: { code, message } } };
  return {
    events: [withdrawQuestion(about, { decision: 'rerun', reason: 'The work goes on.' })],
    calls: [again],
    outbox: [turnJobOf(run)],
  };
}
