/** One attempt of one call through the ledger: claim in a commit of its own, execute, settle. */
import { setTimeout as sleep } from 'node:timers/promises';
import { isTerminal, type NewEvent, type RunStatus } from '../core/events.ts';
import type { CallStatus } from '../core/state.ts';
import { newId } from '../core/ids.ts';
import { linkSignals } from '../core/link-signals.ts';
import { INTERRUPTED, settle, settleForGood, type Settlement } from '../core/ledger.ts';
import type { ToolDefinition, ToolOutcome } from '../core/tool.ts';
import { isDatabaseAway, type Tx } from '../db/database.ts';
import { listOpenCalls, lockToolCall, type ToolCallRow } from '../db/turns.ts';
import { renewCallLease, type CallChange, type RunRow } from '../db/run-store.ts';
import type { Context } from '../engine/context.ts';
import { loadDefinitionsIn } from '../engine/definitions.ts';
import { reportProgress } from '../engine/report-progress.ts';
import { settlementChange, settlementEvent } from '../engine/settlement.ts';
import type { ToolCallJob } from '../jobs/tool-call.ts';
import { appendToRun, type AppendedChange } from './append-to-run.ts';

/** How the job ends: done, or to be looked at again after a while (another attempt holds the call, or a retry is due). */
export type ToolCallEnd = { kind: 'done' } | { kind: 'later'; waitMs: number };

/** `outsideFlow`: no parent in the queue waits for the job, so that it wakes the run itself when it settles the last call. */
export type ToolCallWork = ToolCallJob & { outsideFlow?: boolean };

interface Claimed {
  call: ToolCallRow;
  attempt: number;
  tool: ToolDefinition;
  acceptsDuplicates: boolean;
}

/**
 * Makes the next attempt of a call. A call whose worker was lost is sent again only where its tool is read-only or
 * idempotent, else it ends `unknown`. Infrastructure errors throw; what the tool does wrong is data.
 */
export async function runToolCall(context: Context, job: ToolCallWork, stop: AbortSignal): Promise<ToolCallEnd> {
  const claim = await claimCall(context, job);
  if (!('tool' in claim)) return claim;
  const hold = holdCall(context, job, claim.attempt);
  const { signal, release } = linkSignals(stop, hold.lost);
  const startedMs = performance.now();
  let outcome: ToolOutcome;
  try {
    outcome = await execute(context, job, { claim, signal });
  } finally {
    release();
    hold.close();
  }
  const made = { claim, outcome, latencyMs: Math.round(performance.now() - startedMs) };
  return patiently(() => settleCall(context, job, made), stop);
}

const PATIENCE_MS = 60_000;
const PAUSE_MS = 250;

/** What the tool did is known here and nowhere else: a database that is away for a moment must not make it unknown. */
async function patiently<T>(settleOnce: () => Promise<T>, stop: AbortSignal): Promise<T> {
  const endsAtMs = Date.now() + PATIENCE_MS;
  for (;;) {
    try {
      return await settleOnce();
    } catch (error) {
      if (!isDatabaseAway(error) || stop.aborted || Date.now() > endsAtMs) throw error;
      await sleep(PAUSE_MS, undefined, { signal: stop }).catch(() => undefined);
    }
  }
}

async function claimCall(context: Context, job: ToolCallWork): Promise<Claimed | ToolCallEnd> {
  let result: Claimed | ToolCallEnd = { kind: 'done' };
  await appendToRun(context, job, async (run, tx) => {
    const call = await lockToolCall(tx, job.call);
    if (!call || (call.status !== 'pending' && call.status !== 'running')) return null;
    const waitMs = Math.max(call.status === 'running' ? call.held_ms : 0, call.retry_in_ms);
    if (waitMs > 0) {
      result = { kind: 'later', waitMs };
      return null;
    }
    if (isTerminal(run.status as RunStatus)) return call.status === 'running' ? interruptedForGood(call) : null;
    // Only with the tool at hand: a claim that could not be used would look like an attempt that was lost.
    const claim = { call, attempt: call.attempt + 1, ...(await definitionsOf(tx, run, call.name)) };
    const lost = call.status === 'running' ? interrupted(claim) : undefined;
    if (lost) return { ...lost, ...(await wake(tx, job)) };
    result = claim;
    return claimChange(call, context.config.leaseMs);
  });
  return result;
}

async function definitionsOf(tx: Tx, run: RunRow, name: string): Promise<Pick<Claimed, 'tool' | 'acceptsDuplicates'>> {
  const { definition, tools } = await loadDefinitionsIn(tx, {
    tenant: run.tenant_id,
    agentId: run.agent_id,
    agentVersion: run.agent_version,
    tools: run.pinned.tools,
  });
  const tool = tools.get(name);
  if (!tool) throw new Error(`the run pins no tool ${name}`);
  return { tool, acceptsDuplicates: definition.execution_config?.on_unknown === 'retry' };
}

function claimChange(call: ToolCallRow & { status: string }, leaseMs: number): AppendedChange {
  const attempt = call.attempt + 1;
  const status = call.status as CallStatus;
  const set = { status: 'running', attempt, started_at: 'now', retry_at: null };
  return {
    events: [eventOf(call, { type: 'tool.started', payload: { tool_call_id: call.id, attempt } })],
    calls: [{ id: call.id, from: [status], attempt: call.attempt, set, lease_ms: leaseMs }],
  };
}

/** What becomes of a call whose worker was lost; undefined where it may be sent again. */
function interrupted({ call, tool, acceptsDuplicates }: Claimed): AppendedChange | undefined {
  const { effect, attempt } = call;
  const retry = tool.execution.retry_config;
  const settlement = settle(INTERRUPTED, { effect, attempt, retry, acceptsDuplicates });
  if (settlement.status === 'retry') return undefined;
  const settled = { callId: call.id, attempt, settlement, latencyMs: 0 };
  return { events: [eventOf(call, settlementEvent(settled))], calls: [settlementChange(settled)] };
}

function interruptedForGood({ id, attempt, effect }: ToolCallRow): AppendedChange {
  const settlement = settleForGood(INTERRUPTED, effect);
  return { events: [], calls: [settlementChange({ callId: id, attempt, settlement, latencyMs: 0 })] };
}

function execute(
  context: Context,
  job: ToolCallJob,
  made: { claim: Claimed; signal: AbortSignal },
): Promise<ToolOutcome> {
  const { call, attempt, tool } = made.claim;
  return context.tools.execute(tool, {
    tenantId: job.tenant,
    runId: job.run,
    toolCallId: call.id,
    idempotencyKey: call.idempotency_key,
    attempt,
    arguments: call.arguments,
    timeoutMs: tool.execution.timeout_ms,
    traceparent: job.traceparent,
    onProgress: reportProgress(context.bus, { run: job.run, turn: call.turn_id, call: call.id, tool: call.name }),
    signal: made.signal,
  });
}

interface Made {
  claim: Claimed;
  outcome: ToolOutcome;
  latencyMs: number;
}

async function settleCall(context: Context, job: ToolCallWork, made: Made): Promise<ToolCallEnd> {
  const { call, attempt, tool, acceptsDuplicates } = made.claim;
  const { effect } = call;
  const retry = tool.execution.retry_config;
  let end: ToolCallEnd = { kind: 'done' };
  await appendToRun(context, job, async (run, tx) => {
    const now = await lockToolCall(tx, call.id);
    // Another attempt has taken over, or somebody has settled the call: a late result changes nothing.
    if (now?.status !== 'running' || now.attempt !== attempt) return null;
    const finished = isTerminal(run.status as RunStatus);
    const settlement = finished
      ? settleForGood(made.outcome, effect)
      : settle(made.outcome, { effect, attempt, retry, acceptsDuplicates });
    if (settlement.status === 'retry') {
      end = { kind: 'later', waitMs: settlement.waitMs };
      return { events: [], calls: [pause(made.claim, settlement)] };
    }
    const settled = { callId: call.id, attempt, settlement, latencyMs: made.latencyMs };
    const calls = [settlementChange(settled)];
    if (finished) return { events: [], calls };
    return { events: [eventOf(call, settlementEvent(settled))], calls, ...(await wake(tx, job)) };
  });
  return end;
}

/** The job that drives the run on, where this call was the last that it waited for and no flow will send one. */
async function wake(tx: Tx, job: ToolCallWork): Promise<Pick<AppendedChange, 'outbox'>> {
  if (!job.outsideFlow) return {};
  const open = await listOpenCalls(tx, job.run);
  if (open.some(({ id }) => id !== job.call)) return {};
  const { tenant, run, turn, traceparent } = job;
  return { outbox: [{ id: newId(), queue: 'turns', payload: { tenant, run, turn, traceparent } }] };
}

function pause(claim: Claimed, settlement: Extract<Settlement, { status: 'retry' }>): CallChange {
  const { code, message, waitMs } = settlement;
  return {
    id: claim.call.id,
    from: ['running'],
    attempt: claim.attempt,
    set: { status: 'pending', error: { code, message }, lease_expires_at: null },
    retry_ms: waitMs,
  };
}

type ToolFact = {
  [T in NewEvent['type']]: { type: T; payload: Extract<NewEvent, { type: T }>['payload'] };
}[NewEvent['type']];

function eventOf(call: ToolCallRow, fact: ToolFact): NewEvent {
  return { ...fact, actor: 'worker', turn_id: call.turn_id, step: call.step };
}

/** Renews the lease by a timer apart from the work, and aborts the attempt when it is lost or the run is cancelled. */
function holdCall(context: Context, job: ToolCallJob, attempt: number) {
  const lost = new AbortController();
  const { leaseMs } = context.config;
  const timer = setInterval(() => {
    renewCallLease(context.db, { tenant: job.tenant, call: job.call, attempt, leaseMs }).then(
      (isHeld) => isHeld || lost.abort(new Error('the lease of the call was lost')),
      // The database is away: the attempt goes on, and its result is refused if another has taken over.
      () => undefined,
    );
  }, leaseMs / 3);
  const unsubscribe = context.bus.subscribe(job.run, (message) => {
    if (message.kind === 'abort') lost.abort(new Error(`the run got a ${message.reason}`));
  });
  return {
    lost: lost.signal,
    close: () => {
      clearInterval(timer);
      unsubscribe();
    },
  };
}
