/** Turns a model's tool uses into ledger rows: each passes the gate before it becomes a call. */
import { canonicalJson } from '../../../core/canonical-json.ts';
import type { BudgetStanding } from '../../../core/budget.ts';
import type { ToolUseBlock } from '../../../core/content.ts';
import { requestCall as requestCallEvents, type RequestOutcome } from '../../../core/decision-events/tool-calls.ts';
import { newId } from '../../../lib/new-id.ts';
import { callsOf, faultOfPlace, invalidAnswersBefore, type CallIntent, type Intent } from '../../../core/intents.ts';
import { callsMade } from '../../../core/denied-calls.ts';
import type { CallState } from '../../../core/state.ts';
import type { Trust } from '../../../core/origin.ts';
import { effectOf, isPure, isWait, originOfAnswer, trustOf, type ToolDefinition } from '../../../core/tool.ts';
import type { CallOutcome } from '../../../db/claim-run.ts';
import type { LedgerCall } from '../../../db/commit-run.ts';
import type { GateDecision } from '../../governance/gate.ts';
import { suspendedBy } from '../../governance/governance.ts';
import { appendEvent, appendMessage, insertCall } from '../../run-log/run-log.ts';
import { approvalRequest } from '../../approvals/approval-request.ts';
import { decisionEvents, gateCall, type GatedRun } from '../../governance/gate-call.ts';
import { recordCallBatch, type CallBatchStep } from '../../approvals/propose-call-batch.ts';
import { doubtOf, outcomeInRecord, settledByRecord } from './recorded-outcome.ts';
import { isMadeAgain, takeRecordedCall, type RecordedCall } from './replay-source.ts';
import { gatedRun, traceOf, type Drive } from './drive-state.ts';

/**
 * Records a call for each proposed one, and one message that refers to all their results. These are filled in when read, so
 * that every tool use has its result from the start.
 */
export function requestCalls(drive: Drive, intents: readonly Intent[], asked: AskedIn): void {
  const { step } = asked;
  const calls = callsOf(intents);
  let callsInTurn = callsMade(drive.log.state) - calls.length;
  // Without a prototype V8 keeps it as a table: no hidden class for each id.
  const outcomes = Object.create(null) as Record<string, CallOutcome>;
  const validate = drive.context.tools.validator.together().validateArguments;
  const uses = calls.map(({ use }) => use);
  const verdicts = uses.map((use, place) => {
    const decision = decideOn(drive, { ...asked, validate, use, place, callsInTurn, calls: uses });
    if (decision.kind !== 'deny') callsInTurn += 1;
    return { use, decision };
  });
  const isAllInvalid = verdicts.every(({ decision }) => isRejected(decision));
  const attempt = asked.node ? undefined : isAllInvalid ? invalidAnswersBefore(drive.log.state) + 1 : 0;
  // In a session, any calls that need approval form one call batch, even a single call.
  const asks = verdicts.some(({ decision }) => decision.kind === 'ask');
  const isWhole = intents.some(({ kind }) => kind === 'plan');
  const formsBatch = isWhole || (asks && drive.run.config.session !== undefined);
  const asksAsBatch = formsBatch && asks;
  const steps: CallBatchStep[] = [];
  const content = verdicts.map(({ use, decision }, place) => {
    const waits = asksAsBatch && (decision.kind === 'ask' || (isWhole && decision.kind === 'allow'));
    const id = asked.shownIds?.get(use.id) ?? newId();
    const seconds = asked.node?.seconds;
    requestCall(drive, { id, use, place, step, decision, waits, attempt, seconds });
    outcomes[id] = outcomeOf(decision);
    const batched: CallBatchStep = {
      id,
      use,
      tool: decision.tool,
      decision: decision.kind === 'recorded' ? undefined : decision,
      waits,
    };
    if (isWhole || waits) steps.push(batched);
    return { type: 'tool_result' as const, tool_use_id: use.id, tool_call_id: id };
  });
  if (formsBatch) recordCallBatch(drive, steps, step);
  const results = { role: 'user' as const, content, outcomes };
  appendMessage(drive.log, isUntrusted(drive, calls) ? { ...results, trust: 'untrusted' } : results);
}

function isUntrusted({ log }: Drive, calls: readonly CallIntent[]): boolean {
  const ids = new Set(calls.map(({ use }) => use.id));
  return log.state.calls.some(({ toolUseId, untrusted }) => untrusted && ids.has(toolUseId));
}

/** The answer that requests the calls. */
export interface AskedIn {
  step: number;
  /** A budget exhausted by the answer: its calls are not made. */
  usedUp: BudgetStanding | undefined;
  /** For tools with a rate limit in their binding: calls of the answer that the last minute still permits. */
  granted?: ReadonlyMap<string, number> | undefined;
  /** By tool use: call ids already shown to watchers. */
  shownIds?: ReadonlyMap<string, string> | undefined;
  /** Tools offered to the model; if a graph's node asks, all of the run's. */
  offered?: ReadonlyMap<string, ToolDefinition> | undefined;
  /** If a graph's node asks, not a model: with `approval`, a person is asked that question, for `seconds`. */
  node?: { approval?: string | undefined; seconds?: number | undefined } | undefined;
}

/**
 * A call that passes the gate is made, asked about, or answered from an earlier run's record; `again`: the recorded call whose
 * key it is made under.
 */
type Verdict = (GateDecision & { again?: RecordedCall }) | Recorded;

/** `passed`: the gate's decision on the call. */
interface Recorded {
  kind: 'recorded';
  tool: ToolDefinition;
  answer: RecordedCall;
  passed: GateDecision;
}

interface Requested {
  id: string;
  use: ToolUseBlock;
  place: number;
  step: number;
  decision: Verdict;
  /** Whether it is held until its call batch is approved. */
  waits: boolean;
  /** The `attempt` of `intent.rejected`, if a model asked. */
  attempt: number | undefined;
  /** How long a person is asked, if other than the agent's setting. */
  seconds: number | undefined;
}

function requestCall(drive: Drive, requested: Requested): void {
  const { id, use, place, step, decision, waits } = requested;
  const turnId = drive.log.state.turn?.id ?? '';
  const tool = decision.tool;
  const mode = modeOf(drive, decision, waits);
  const effect = tool ? effectOf(tool) : 'unknown';
  const taint = taintOf(drive, requested);
  const named = { tool_call_id: id, tool_use_id: use.id, place, name: use.name, mode, effect };
  const call = { ...named, ...origin(decision), ...taint };
  const gated = decision.kind === 'recorded' ? decision.passed : decision;
  // If the record answers: the recorded arguments.
  const args = decision.kind === 'recorded' ? decision.answer.arguments : gated.arguments;
  const isOther = (decision.kind === 'recorded' || gated.rewritten) && canonicalJson(args) !== canonicalJson(use.input);
  const decided = decisionEvents(gated, { callId: id, turnId, step });
  const outcome = requestOutcome(drive, { ...requested, mode });
  appendEvent(drive.log, ...requestCallEvents(drive.log.state, { call, step, decided, outcome }));
  if (decision.kind === 'allow' && !waits) drive.step.gatedAt.set(id, drive.governance.epoch);
  const { name } = use;
  const record = recordOf(decision);
  const idempotency_key = record?.idempotency_key ?? `${drive.run.id}-${step}-${place}`;
  const { tainted_by } = taint;
  const tainted = tainted_by && { tainted_by };
  const doubt = decision.kind !== 'recorded' && decision.again && { error: doubtOf(decision.again) };
  const made = { idempotency_key, arguments: args, ...doubt, ...tainted };
  const row: LedgerCall = { id, turn_id: turnId, step, name, effect, ...made };
  if (decision.kind === 'allow' && (mode === 'pure' || mode === 'inline'))
    drive.step.ownCalls.set(id, { row, isBegun: true });
  insertCall(drive.log, {
    ...row,
    tenant_id: drive.tenantId,
    run_id: drive.run.id,
    place,
    tool_use_id: use.id,
    tool_id: tool?.id,
    tool_version: tool?.version,
    mode,
    traceparent: traceOf(drive),
    created_at: 'now',
    ...(isOther && { asked: use.input }),
    ...(record && { recorded_from: record.id }),
    trust: taint.untrusted ? 'untrusted' : 'trusted',
    origin: tool && isMade(decision) ? originOfAnswer(tool) : 'drover',
    ...(decision.kind === 'recorded' ? settledByRecord(decision.answer, id).row : initialState(decision, mode, waits)),
  });
}

function requestOutcome(
  { definition }: Drive,
  { id, mode, decision, waits, attempt, seconds }: Requested & { mode: CallState['mode'] },
): RequestOutcome {
  switch (decision.kind) {
    case 'recorded':
      return { kind: 'recorded', settled: settledByRecord(decision.answer, id).event };
    case 'allow':
      return { kind: mode === 'inline' ? 'begun' : 'open' };
    case 'ask':
      return waits
        ? { kind: 'open' }
        : { kind: 'asked', about: approvalRequest(definition, { id, decision, seconds }) };
    case 'deny':
      return { kind: 'denied', error: problemOf(decision) };
    case 'invalid':
      return { kind: 'invalid', error: problemOf(decision), attempt: isRejected(decision) ? attempt : undefined };
  }
}

/** The untrusted content of the turn when the call was requested, and whether its answer is untrusted. */
function taintOf(drive: Drive, { use, decision }: Requested): { untrusted?: true; tainted_by?: number[] } {
  const { tool } = decision;
  const taintedBy = drive.log.state.turn?.untrusted ?? [];
  const untrusted = tool !== undefined && isMade(decision) && trustOfAnswer(drive, tool, use.input) === 'untrusted';
  return { ...(untrusted && { untrusted }), ...(taintedBy.length > 0 && { tainted_by: [...taintedBy] }) };
}

function isMade({ kind }: Verdict): boolean {
  return kind !== 'invalid' && kind !== 'deny';
}

/** Trust of a call's answer. Reading an output again does not make it more trusted. */
function trustOfAnswer({ log, tools }: Drive, tool: ToolDefinition, args: Record<string, unknown>): Trust {
  if (tool.transport.type !== 'builtin' || tool.name !== 'read_tool_output') return trustOf(tool);
  const isRead = (block: { type: string }): block is ToolUseBlock =>
    block.type === 'tool_use' && (block as ToolUseBlock).id === args['tool_use_id'];
  const read = log.messages.flatMap(({ content }) => content.filter(isRead))[0];
  const earlier = read && tools.get(read.name);
  return earlier ? trustOf(earlier) : 'untrusted';
}

function problemOf({ code, message }: { code: string; message: string }) {
  return { code, message };
}

function origin(decision: Verdict): { recorded_from?: string; allowed_by?: string } {
  const record = recordOf(decision);
  return {
    ...(record && { recorded_from: record.id }),
    ...(decision.kind === 'allow' && !decision.by.policy && { allowed_by: decision.by.stage }),
  };
}

function recordOf(decision: Verdict): RecordedCall | undefined {
  return decision.kind === 'recorded' ? decision.answer : decision.again;
}

/**
 * The mode of a call. A worker makes a call that waits for approval, whatever its tool asks for, or it is answered from
 * outside: the driver does not wait with it. A worker also makes calls with arguments other than the model's, which the driver
 * would take from the conversation, and those of a run suspended meanwhile.
 */
function modeOf(drive: Drive, decision: Verdict, waits: boolean): CallState['mode'] {
  if ((decision.kind === 'allow' || decision.kind === 'ask') && isWait(decision.tool)) return 'wait';
  if (decision.kind !== 'allow') return 'queued';
  const { tool } = decision;
  if (decision.rewritten || waits) return 'queued';
  if (isPure(tool)) return 'pure';
  const suspended = suspendedBy(drive.governance, drive.run.agent_id) !== undefined;
  // A call whose work goes on elsewhere (A2A) must not keep a driver waiting.
  const isDriven = tool.execution.inline && tool.transport.type !== 'a2a';
  return isDriven && !suspended ? 'inline' : 'queued';
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

/** Whether the model's proposal is invalid. Arguments made invalid by a policy are not the model's fault. */
function isRejected(decision: Verdict): decision is Extract<GateDecision, { kind: 'invalid' }> {
  return decision.kind === 'invalid' && !decision.rewritten;
}

/** `callsInTurn`: the calls before this one, without those that were denied. */
function decideOn(
  drive: Drive,
  asked: AskedIn &
    Pick<GatedRun, 'validate'> & {
      use: ToolUseBlock;
      place: number;
      callsInTurn: number;
      calls: readonly ToolUseBlock[];
    },
): Verdict {
  const { use, place, step, callsInTurn, usedUp, granted, calls, validate, offered = drive.tools } = asked;
  const fault = faultOfPlace(use.name, place);
  const by = { stage: 'binding' as const };
  if (fault) return { kind: 'invalid', tool: undefined, ...fault, by, arguments: use.input };
  const inAnswer = calls.slice(0, place).filter(({ name }) => name === use.name).length;
  const isOverRate = inAnswer >= (granted?.get(use.name) ?? Infinity);
  const taintedBy = drive.log.state.turn?.untrusted;
  const wanted = { name: use.name, arguments: use.input, callsInTurn, isOverRate, step, taintedBy };
  const decision = askedByNode(gateCall({ ...gatedRun(drive), tools: offered, usedUp, validate }, wanted), asked.node);
  if (decision.kind !== 'allow' && decision.kind !== 'ask') return decision;
  const { tool } = decision;
  const answer = takeRecordedCall(
    { state: drive.log.state, replaySource: drive.replaySource },
    { tool, arguments: decision.arguments, asked: use.input, step },
  );
  if (!answer) return decision;
  const key = canonicalJson(decision.arguments);
  if (isMadeAgain(answer, { run: drive.run, limits: drive.limits, tool, key })) return { ...decision, again: answer };
  return { kind: 'recorded', tool, answer, passed: decision };
}

/** An approval node asks a person even for calls that policies allow. */
function askedByNode(decision: GateDecision, node: AskedIn['node']): GateDecision {
  if (node?.approval === undefined || decision.kind !== 'allow') return decision;
  return { ...decision, kind: 'ask', code: 'approval_node', message: node.approval, fourEyes: false };
}
