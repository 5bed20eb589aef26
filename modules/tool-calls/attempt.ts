/**
 * One attempt of a call through the ledger, and the only way from a run to a tool: authorize, claim, execute, settle. Drivers
 * and workers differ only in how they commit claims and settlements.
 */
import { INTERRUPTED, settleAttempt, type AttemptRules, type Settlement } from '../../core/ledger.ts';
import { NOT_KEPT, type ToolDefinition, type ToolOutcome } from '../../core/tool.ts';
import { underCall } from '../../core/trace-context.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { LedgerCall } from '../../db/commit-run.ts';
import type { Tx } from '../../db/database.ts';
import { keepResultFiles, type FileFact } from '../files/result-files.ts';
import type { PinnedDefinitions } from '../agents/definitions.ts';
import type { Context } from '../governance/context.ts';
import type { GateDecision } from '../governance/gate.ts';
import { suspendedBy, type Governance } from '../governance/governance.ts';
import { dropForgotten } from '../memory/forget-memories.ts';
import { reauthorizeCall } from '../governance/reauthorize-call.ts';
import { reportProgress } from './report-progress.ts';

/** A call whose attempt may be sent; `attempt` counts this one. */
export interface ClaimedCall {
  call: LedgerCall;
  attempt: number;
  agentId: string;
  tool: ToolDefinition;
  retry: AttemptRules['retry'];
  /** The agent accepts that calls of unknown outcome are repeated. */
  acceptsDuplicates: boolean;
  /** Longest pause that the tool may request; default: that of queued calls. */
  longestPauseMs?: number;
  /** How long a person has to answer a question of the tool. */
  questionSeconds: number;
}

export interface MadeAttempt {
  claim: ClaimedCall;
  outcome: ToolOutcome;
  settlement: Settlement;
  latencyMs: number;
  /** Outcomes for large parts of the result. */
  facts: readonly FileFact[];
}

/** The end of an attempt: done, or the call must be looked at again later; `attempt`: the number of attempts in the ledger then. */
export type AttemptEnd = Done | { kind: 'later'; waitMs: number; attempt?: number };

/** The end of an attempt and its outcome: `passed` if none was needed, since somebody else has made it or settled the call. */
export interface Attempted {
  end: AttemptEnd;
  outcome: Settlement['status'] | 'passed';
}

/** `abandons`: the call is settled, and its work elsewhere must be cancelled. */
interface Done {
  kind: 'done';
  abandons?: boolean;
}

export interface HeldClaim {
  /** Fires when the claim is lost. */
  signal: AbortSignal;
  /** Whether the lease is certainly valid, by a monotonic clock. */
  maySend: () => boolean;
  release: () => void;
}

/** Commits the steps of an attempt. Infrastructure errors throw. */
export interface Committer {
  /** Claims the next attempt, in a commit before anything is sent; or returns how it ends without being made. */
  claim: () => Promise<ClaimedCall | AttemptEnd>;
  /** Keeps the claim while the tool runs. */
  hold: (claim: ClaimedCall) => HeldClaim;
  /** Commits the outcome; after `retry` the call can be claimed again. */
  settle: (made: MadeAttempt) => Promise<AttemptEnd>;
}

/** The owner of the call. */
interface CalledBy {
  tenantId: string;
  runId: string;
  traceparent?: string | undefined;
}

/** Makes the next attempt of a call. Failures of the tool are data. */
export async function attempt(
  context: Pick<Context, 'tools' | 'bus' | 'db' | 'fileStore' | 'log' | 'traces'>,
  by: CalledBy,
  committer: Committer,
): Promise<Attempted> {
  const claim = await committer.claim();
  if (!('tool' in claim)) return { end: claim, outcome: 'passed' };
  const held = committer.hold(claim);
  const startedMs = performance.now();
  let outcome: ToolOutcome;
  let latencyMs: number;
  let facts: readonly FileFact[];
  try {
    const answered = await execute(context, by, { claim, held });
    latencyMs = Math.round(performance.now() - startedMs);
    const { tenantId, runId } = by;
    const call = { tenantId, runId, callId: claim.call.id, signal: held.signal };
    ({ outcome, facts } = await keepResultFiles(context, call, answered));
  } finally {
    held.release();
  }
  const settlement = settleAttempt(outcome, { ...rulesOf(claim), chance: Math.random() });
  const end = await committer.settle({ claim, outcome, settlement, latencyMs, facts });
  if (outcome.kind === 'succeeded' && outcome.memories) {
    const of = { agentId: claim.agentId, runId: by.runId, ids: outcome.memories };
    await context.db.withTenant(by.tenantId, (tx) => dropForgotten(tx, of));
  }
  return { end, outcome: settlement.status };
}

/** The same attempt where the database takes nothing of what the tool has answered. */
export function withoutAnswer(made: MadeAttempt): MadeAttempt {
  const outcome: ToolOutcome = { kind: 'error', origin: 'drover', ...NOT_KEPT };
  return { ...made, outcome, settlement: settleAttempt(outcome, rulesOf(made.claim)), facts: [] };
}

function execute(
  context: Pick<Context, 'tools' | 'bus' | 'traces'>,
  { tenantId, runId, traceparent }: CalledBy,
  { claim, held }: { claim: ClaimedCall; held: HeldClaim },
): Promise<ToolOutcome> {
  const { call, attempt: number, tool } = claim;
  return context.tools.execute(tool, {
    tenantId,
    runId,
    toolCallId: call.id,
    idempotencyKey: call.idempotency_key,
    attempt: number,
    arguments: call.arguments,
    timeoutMs: tool.execution.timeout_ms,
    traceparent: traceOfCall(context, call, traceparent),
    onProgress: reportProgress(context.bus, { subject: runId, turnId: call.turn_id, callId: call.id, tool: call.name }),
    maySend: held.maySend,
    ...(call.remote && { remote: call.remote }),
    signal: held.signal,
  });
}

/** The trace that a tool is told: that of the job, `given`, else the call's own, since a job that replaces a lost one may have none. */
export function traceOfCall(
  { traces }: Pick<Context, 'traces'>,
  { id, traceparent }: Pick<LedgerCall, 'id' | 'traceparent'>,
  given: string | undefined,
): string | undefined {
  const trace = given ?? traceparent ?? undefined;
  return traces ? underCall(trace, id) : trace;
}

/** Work elsewhere for which nobody waits any more is cancelled. */
export function endOf({ outcome }: Pick<MadeAttempt, 'outcome'>): AttemptEnd {
  return 'remote' in outcome && outcome.remote ? { kind: 'done', abandons: true } : { kind: 'done' };
}

/** The outcome of an attempt whose process was lost; undefined if the call may be sent again, or was only looked at. */
export function interruptionOf(lost: ClaimedCall): Exclude<Settlement, { status: 'retry' }> | undefined {
  if (lost.call.remote) return undefined;
  const settlement = settleAttempt(INTERRUPTED, rulesOf(lost));
  return settlement.status === 'retry' ? undefined : settlement;
}

function rulesOf({ call, attempt: number, retry, acceptsDuplicates, longestPauseMs }: ClaimedCall): AttemptRules {
  const looked = call.remote != null;
  const perhapsIn = call.error?.perhaps_in;
  return { effect: call.effect, attempt: number, perhapsIn, retry, acceptsDuplicates, looked, longestPauseMs };
}

export interface Authorization {
  governance: Governance;
  /** Tenant or agent is suspended: the call stays unchanged until that is lifted. */
  isSuspended: boolean;
  decision: GateDecision;
  pinned: PinnedDefinitions;
}

/**
 * Decides whether a call in the ledger may be sent now. It passed the gate when it was requested, and does so again for any
 * attempt not claimed with the request, always with current policies, suspensions, budgets and deletions.
 */
export async function authorize(
  context: Pick<Context, 'governance' | 'definitions' | 'tools'>,
  tx: Tx,
  { run, pinned, call }: { run: RunRow; pinned: PinnedDefinitions; call: LedgerCall },
): Promise<Authorization> {
  const { decision, governance } = await reauthorizeCall(context, tx, { run, pinned, call });
  return { decision, governance, pinned, isSuspended: suspendedBy(governance, run.agent_id) !== undefined };
}
