/** From a model's tool uses to rows of the ledger: each passes the gate before it may become a call. */
import type { BudgetStanding } from '../../../core/budget.ts';
import type { ToolUseBlock } from '../../../core/content.ts';
import type { NewEvent } from '../../../core/events.ts';
import { newId } from '../../../lib/new-id.ts';
import { callsOf, faultOfPlace, invalidAnswersBefore, type Intent } from '../../../core/intents.ts';
import type { CallState } from '../../../core/state.ts';
import { effectOf, isPure, isWait, type ToolDefinition } from '../../../core/tool.ts';
import type { CallOutcome } from '../../../db/claim-run.ts';
import type { LedgerCall } from '../../tool-calls/attempt.ts';
import type { GateDecision } from '../../governance/gate.ts';
import { suspendedBy } from '../../governance/governance.ts';
import { appendEvent, appendMessage, insertCall } from '../../run-log/run-log.ts';
import { approvalRequest } from '../../approvals/approval-request.ts';
import { decisionEvents, gateCall } from '../../governance/gate-call.ts';
import { proposePlan, type PlanStep } from './propose-plan.ts';
import { outcomeInRecord, settledByRecord, takeRecordedCall, type RecordedCall } from './replay-source.ts';
import { gatedRun, type DriveSession } from './session.ts';

/**
 * Records a call for each that is proposed, and one message that refers to all their results: the results are filled in when
 * they are read, so that every tool use has its result from the start.
 */
export function requestCalls(session: DriveSession, intents: readonly Intent[], { step, usedUp }: AskedIn): void {
  const calls = callsOf(intents);
  const before = (session.log.state.turn?.toolCalls ?? 0) - calls.length;
  // Without a prototype V8 keeps it as a table: no hidden class for each id.
  const outcomes = Object.create(null) as Record<string, CallOutcome>;
  const verdicts = calls.map(({ use }, place) => ({
    use,
    decision: decideOn(session, { use, place, step, before, usedUp }),
  }));
  const attempt = verdicts.every(({ decision }) => isRejected(decision))
    ? invalidAnswersBefore(session.log.state) + 1
    : 0;
  const formsPlan = intents.some(({ kind }) => kind === 'plan');
  const asksAsPlan = formsPlan && verdicts.some(({ decision }) => decision.kind === 'ask');
  const steps: PlanStep[] = [];
  const content = verdicts.map(({ use, decision }, place) => {
    const waits = asksAsPlan && (decision.kind === 'ask' || decision.kind === 'allow');
    const id = requestCall(session, { use, place, step, decision, waits, attempt });
    outcomes[id] = outcomeOf(decision);
    steps.push({ id, use, tool: decision.tool, decision: decision.kind === 'recorded' ? undefined : decision, waits });
    return { type: 'tool_result' as const, tool_use_id: use.id, tool_call_id: id };
  });
  if (formsPlan) proposePlan(session, steps, step);
  appendMessage(session.log, { role: 'user', content, outcomes });
}

/** The answer that asks. */
export interface AskedIn {
  step: number;
  /** A budget that the answer has used up: its calls are not made. */
  usedUp: BudgetStanding | undefined;
}

/** A call that passes the gate is made, asked about, or answered from the record of an earlier run. */
type Verdict = GateDecision | Recorded;

/** `passed`: what the gate had said of it. */
interface Recorded {
  kind: 'recorded';
  tool: ToolDefinition;
  answer: RecordedCall;
  passed: GateDecision;
}

interface Requested {
  use: ToolUseBlock;
  place: number;
  step: number;
  decision: Verdict;
  /** It is held until its plan is approved. */
  waits: boolean;
  /** Of `intent.rejected`. */
  attempt: number;
}

function requestCall(session: DriveSession, requested: Requested): string {
  const { use, place, step, decision, waits, attempt } = requested;
  const id = newId();
  const turnId = session.log.state.turn?.id ?? '';
  const tool = decision.tool;
  const mode = modeOf(session, decision, waits);
  const effect = tool ? effectOf(tool) : 'unknown';
  const about = { actor: 'agent' as const, turn_id: turnId, step };
  const payload = { tool_call_id: id, tool_use_id: use.id, place, name: use.name, mode, effect, ...origin(decision) };
  const gated = decision.kind === 'recorded' ? decision.passed : decision;
  const args = gated.arguments;
  const decided = decisionEvents(gated, { callId: id, turnId, step });
  const events: NewEvent[] = [{ ...about, type: 'tool.requested', payload }, ...decided];
  if (isRejected(decision)) {
    const { code, message } = decision;
    const rejected = { tool_call_id: id, tool_use_id: use.id, name: use.name, code, message, attempt };
    events.push({ ...about, actor: 'system', type: 'intent.rejected', payload: rejected });
  }
  if (decision.kind === 'recorded') {
    events.push({ ...about, actor: 'system', ...settledByRecord(decision.answer, id).event });
  }
  if (decision.kind === 'allow' && mode === 'inline') {
    events.push({ ...about, actor: 'worker', type: 'tool.started', payload: { tool_call_id: id, attempt: 1 } });
  }
  if (decision.kind === 'ask' && !waits) {
    events.push(approvalRequest({ definition: session.definition, turnId, step }, { id, decision }));
  }
  if (decision.kind === 'deny')
    events.push({ ...about, actor: 'system', type: 'tool.denied', payload: refusal(id, decision) });
  if (decision.kind === 'invalid') {
    events.push({ ...about, actor: 'system', type: 'tool.failed', payload: { ...refusal(id, decision), attempts: 0 } });
  }
  appendEvent(session.log, ...events);
  if (decision.kind === 'allow' && !waits) session.step.gatedAt.set(id, session.governance.epoch);
  const { name } = use;
  const idempotency_key = `${session.run.id}-${step}-${place}`;
  const row: LedgerCall = { id, turn_id: turnId, step, name, effect, idempotency_key, arguments: args };
  if (decision.kind === 'allow' && (mode === 'pure' || mode === 'inline'))
    session.step.ownCalls.set(id, { row, isBegun: true });
  insertCall(session.log, {
    ...row,
    tenant_id: session.tenantId,
    run_id: session.run.id,
    place,
    tool_use_id: use.id,
    tool_id: tool?.id,
    tool_version: tool?.version,
    mode,
    traceparent: session.traceparent,
    created_at: 'now',
    ...(decision.kind === 'recorded' ? settledByRecord(decision.answer, id).row : initialState(decision, mode, waits)),
  });
  return id;
}

function origin(decision: Verdict): { recorded_from?: string; allowed_by?: string } {
  if (decision.kind === 'recorded') return { recorded_from: decision.answer.id };
  return decision.kind === 'allow' && !decision.by.policy ? { allowed_by: decision.by.stage } : {};
}

/**
 * A call that waits for approval is made by a worker, whatever its tool asks for, or from outside: the driver does not
 * wait with it. So is one with other arguments than the model's, which the driver would take from the conversation,
 * and one of a run that is suspended meanwhile.
 */
function modeOf(session: DriveSession, decision: Verdict, waits: boolean): CallState['mode'] {
  if ((decision.kind === 'allow' || decision.kind === 'ask') && isWait(decision.tool)) return 'wait';
  if (decision.kind !== 'allow') return 'queued';
  const { tool } = decision;
  if (decision.rewritten || waits) return 'queued';
  if (isPure(tool)) return 'pure';
  const suspended = suspendedBy(session.governance, session.run.agent_id) !== undefined;
  return tool.execution.inline && !suspended ? 'inline' : 'queued';
}

function initialState(decision: GateDecision, mode: CallState['mode'], waits: boolean): Record<string, unknown> {
  if (decision.kind === 'ask' || waits) return { status: 'awaiting_approval', attempt: 0 };
  if (decision.kind === 'allow') {
    return mode === 'queued' || mode === 'wait'
      ? { status: 'pending', attempt: 0 }
      : { status: 'running', attempt: 1, started_at: 'now' };
  }
  const { code, message } = decision;
  const status = decision.kind === 'deny' ? 'denied' : 'failed';
  return { status, attempt: 0, output: message, is_error: true, error: { code, message }, finished_at: 'now' };
}

function outcomeOf(decision: Verdict): CallOutcome {
  if (decision.kind === 'recorded') return outcomeInRecord(decision.answer);
  if (decision.kind === 'allow' || decision.kind === 'ask') return { status: 'pending', output: null, is_error: null };
  return { status: decision.kind === 'deny' ? 'denied' : 'failed', output: decision.message, is_error: true };
}

function refusal(id: string, decision: Extract<GateDecision, { kind: 'deny' | 'invalid' }>) {
  return { tool_call_id: id, error: { code: decision.code, message: decision.message } };
}

/** What the model proposed is not valid. Arguments that a policy has spoilt are not the model's fault. */
function isRejected(decision: Verdict): decision is Extract<GateDecision, { kind: 'invalid' }> {
  return decision.kind === 'invalid' && !decision.rewritten;
}

/** `before`: calls of the turn before this answer. */
function decideOn(
  session: DriveSession,
  { use, place, step, before, usedUp }: AskedIn & { use: ToolUseBlock; place: number; before: number },
): Verdict {
  const fault = faultOfPlace(use.name, place);
  const by = { stage: 'binding' as const };
  if (fault) return { kind: 'invalid', tool: undefined, ...fault, by, arguments: use.input };
  const wanted = { name: use.name, arguments: use.input, callsInTurn: before + place, step };
  const decision = gateCall({ ...gatedRun(session), usedUp }, wanted);
  if (decision.kind !== 'allow' && decision.kind !== 'ask') return decision;
  const { tool } = decision;
  const answer = takeRecordedCall(
    { state: session.log.state, replaySource: session.replaySource },
    { tool, arguments: decision.arguments, step },
  );
  return answer ? { kind: 'recorded', tool, answer, passed: decision } : decision;
}
