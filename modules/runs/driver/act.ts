/** Act: the calls that the driver makes itself, pure ones and those of tools that ask for it. */
import { setTimeout as sleep } from 'node:timers/promises';
import { INTERRUPTED, settleAttempt, type Settlement } from '../../../core/ledger.ts';
import type { CallState, CallStatus } from '../../../core/state.ts';
import type { ToolDefinition, ToolOutcome } from '../../../core/tool.ts';
import { suspendedBy, type Governance } from '../../governance/governance.ts';
import { announceNext } from './announce.ts';
import { commit } from './commit.ts';
import { findUsedUpBudget } from '../../budgets/find-used-up-budget.ts';
import { gateCall, obstacleTo } from '../../governance/gate-call.ts';
import { reportProgress } from '../../tool-calls/report-progress.ts';
import { changeCall, appendEvent, type DriveSession } from './session.ts';
import { settlementChange, settlementEvent } from '../../run-log/settlement.ts';

/**
 * Makes the calls at the same time, each with a commit of its own before it is sent and after. A pure one, which was left
 * over, waits for the next commit with its result, since making it again is harmless.
 */
export async function runCalls(session: DriveSession, calls: readonly CallState[]): Promise<void> {
  const inTurn = serialize();
  const results = await Promise.allSettled(calls.map((call) => runCall(session, call, inTurn)));
  const failed = results.find((result) => result.status === 'rejected');
  if (failed) throw failed.reason;
}

type InTurn = (work: () => Promise<void>) => Promise<void>;

/**
 * Makes the pure calls of an answer before it is committed, so that their rows are born finished. They have no effect and
 * do not leave the process; one that the process has to stop is left to whoever drives the run next.
 */
export async function runPureCalls(session: DriveSession): Promise<void> {
  const isOpen = ({ id, mode, status }: CallState) => mode === 'pure' && status === 'running' && session.mine.has(id);
  const calls = session.state.calls.filter(isOpen);
  // One that fails is made again in a step of its own, and fails there.
  await Promise.allSettled(calls.map((call) => runCall(session, call, (work) => work())));
}

async function runCall(session: DriveSession, call: CallState, inTurn: InTurn): Promise<void> {
  const tool = session.tools.get(call.name);
  if (!tool) throw new Error(`the run pins no tool ${call.name}`);
  const retry = call.mode === 'pure' ? { max_retries: 0, backoff_ms: 0 } : tool.execution.retry_config;
  const acceptsDuplicates = session.limits.onUnknown === 'retry';
  let { attempt } = call;
  const isLeft = call.mode === 'inline' && !session.mine.has(call.id);
  if (isLeft && call.status === 'running' && stands(session, call) === 'running') {
    // The attempt was under way when its driver died.
    const settlement = settleAttempt(INTERRUPTED, { effect: call.effect, attempt, retry, acceptsDuplicates });
    if (settlement.status !== 'retry') {
      return inTurn(() => finish(session, { call, attempt, settlement, latencyMs: 0 }));
    }
  }
  const isToBegin = isLeft || call.status === 'pending';
  if (isToBegin && !(await beginAnother(session, { call, attempt: ++attempt, inTurn }))) return;
  for (;;) {
    const { outcome, latencyMs } = await execute(session, { call, tool, attempt });
    const settlement = settleAttempt(outcome, { effect: call.effect, attempt, retry, acceptsDuplicates });
    session.context.metrics.stepSeconds.observe({ kind: 'tool' }, latencyMs / 1000);
    if (settlement.status !== 'retry') {
      return inTurn(() => finish(session, { call, attempt, settlement, latencyMs }));
    }
    await sleep(settlement.waitMs, undefined, { signal: session.signal });
    if (!(await beginAnother(session, { call, attempt: ++attempt, inTurn }))) return;
  }
}

/** Where the ledger has the call: `pending` where a person wants it to be made again, or where it was put off. */
function stands(session: DriveSession, { id, status }: CallState): CallStatus {
  const row = session.messages.findLast(({ outcomes }) => outcomes && id in outcomes);
  return row?.outcomes?.[id]?.status ?? status;
}

interface Another {
  call: CallState;
  attempt: number;
  inTurn: InTurn;
}

/**
 * Another attempt is another call to the tool, and policies and suspensions may not be what they were. False where it is
 * not made: for good, or for as long as the run is suspended.
 */
async function beginAnother(session: DriveSession, { call, attempt, inTurn }: Another): Promise<boolean> {
  let begun = false;
  for (;;) {
    const { governance, obstacle } = await lookAgain(session, call);
    const now = begun ? attempt : attempt - 1;
    if (suspendedBy(governance, session.run.agent_id)) {
      await inTurn(() => putOff(session, call));
      return false;
    }
    if (obstacle !== undefined) {
      await inTurn(() => giveUp(session, { call, attempt: now, message: obstacle }));
      return false;
    }
    if (!begun) await inTurn(() => begin(session, call, attempt));
    begun = true;
    // The commit may have met a newer governance than was looked at: that one counts before anything is sent.
    if (session.governance.epoch === governance.epoch) return true;
  }
}

async function lookAgain(
  session: DriveSession,
  call: CallState,
): Promise<{ governance: Governance; obstacle: string | undefined }> {
  const { db, governance: known } = session.context;
  const { governance, usedUp } = await db.withTenant(session.tenantId, async (tx) => ({
    governance: await known.current(tx, session.tenantId),
    usedUp: await findUsedUpBudget(tx, session.run),
  }));
  session.governance = governance;
  const wanted = { name: call.name, arguments: argumentsOf(session, call), callsInTurn: 0, step: session.state.steps };
  const decision = gateCall({ ...session, usedUp }, wanted);
  const asked = decision.kind === 'ask' ? decision.message : undefined;
  return { governance, obstacle: obstacleTo(decision) ?? asked };
}

/** Nothing of it is under way: whoever drives the run when the suspension is lifted makes the next attempt. */
async function putOff(session: DriveSession, call: CallState): Promise<void> {
  session.mine.delete(call.id);
  changeCall(session, { id: call.id, from: ['pending', 'running'], set: { status: 'pending' } });
}

async function execute(
  session: DriveSession,
  made: { call: CallState; tool: ToolDefinition; attempt: number },
): Promise<{ outcome: ToolOutcome; latencyMs: number }> {
  const { call, tool, attempt } = made;
  const startedMs = performance.now();
  const outcome = await session.context.tools.execute(tool, {
    tenantId: session.tenantId,
    runId: session.run.id,
    toolCallId: call.id,
    idempotencyKey: idempotencyKeyOf(session, call),
    attempt,
    arguments: argumentsOf(session, call),
    timeoutMs: tool.execution.timeout_ms,
    traceparent: session.traceparent,
    onProgress: reportProgress(session.context.bus, {
      runId: session.run.id,
      turnId: session.state.turn?.id ?? '',
      callId: call.id,
      tool: call.name,
    }),
    signal: session.signal,
  });
  // A drive that is stopped from outside leaves the call to whoever takes the run up; what it has is kept.
  if (outcome.kind === 'aborted') session.signal.throwIfAborted();
  return { outcome, latencyMs: Math.round(performance.now() - startedMs) };
}

async function begin(session: DriveSession, call: CallState, attempt: number): Promise<void> {
  const payload = { tool_call_id: call.id, attempt };
  appendEvent(session, { type: 'tool.started', actor: 'worker', turn_id: session.state.turn?.id, payload });
  session.pending.calls.push({ id: call.id, from: ['pending', 'running'], set: { status: 'running', attempt } });
  session.mine.add(call.id);
  await commit(session);
}

interface Finished {
  call: CallState;
  from?: CallStatus[];
  attempt: number;
  settlement: Exclude<Settlement, { status: 'retry' }>;
  latencyMs: number;
}

async function finish(session: DriveSession, finished: Finished): Promise<void> {
  const { call, attempt, settlement, latencyMs } = finished;
  const settled = settlementChange({ callId: call.id, attempt, settlement, latencyMs });
  const change = finished.from ? { ...settled, from: finished.from } : settled;
  appendEvent(session, {
    ...settlementEvent({ callId: call.id, attempt, settlement, latencyMs }),
    actor: 'worker',
    turn_id: session.state.turn?.id,
    step: session.state.steps,
  });
  changeCall(session, change);
  if (call.mode === 'pure') return;
  announceNext(session);
  await commit(session);
}

async function giveUp(
  session: DriveSession,
  given: { call: CallState; attempt: number; message: string },
): Promise<void> {
  const { message, ...of } = given;
  const settlement = { status: 'failed' as const, code: 'stopped', message };
  // Of a call that was put off, or is to be made again, no attempt is under way.
  await finish(session, { ...of, settlement, latencyMs: 0, from: ['pending', 'running'] });
}

function idempotencyKeyOf(session: DriveSession, call: CallState): string {
  return `${session.run.id}-${session.state.steps}-${call.place}`;
}

function argumentsOf(session: DriveSession, call: CallState): Record<string, unknown> {
  for (const message of session.messages.toReversed()) {
    const use = message.content.find((block) => block.type === 'tool_use' && block.id === call.toolUseId);
    if (use?.type === 'tool_use') return use.input;
  }
  throw new Error(`no message asks for call ${call.id}`);
}

/** Lets the commits of calls that end at the same time happen one after the other. */
function serialize(): InTurn {
  let last: Promise<void> = Promise.resolve();
  return (work) => {
    const next = last.then(work);
    last = next.catch(() => undefined);
    return next;
  };
}
