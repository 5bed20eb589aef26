/** Claims a call for an attempt, in a separate commit before anything is sent. */
import { settledEvent } from '../../core/decision-events/tool-calls.ts';
import { approvalSeconds } from '../../core/definition.ts';
import { INTERRUPTED, abandoned, interruptedAttempt, settleForGood } from '../../core/ledger.ts';
import { isTerminal } from '../../core/events.ts';
import type { CallStatus } from '../../core/state.ts';
import { hasMovedOn } from '../../db/database.ts';
import type { CallChange, ClaimedCallRow, LedgerCall, RunChange } from '../../db/commit-run.ts';
import { lockToolCall } from '../../db/tool-calls.ts';
import { newId } from '../../lib/new-id.ts';
import type { Context } from '../governance/context.ts';
import type { PinnedDefinitions } from '../agents/definitions.ts';
import { retryWhileUnavailable } from '../run-log/retry-while-unavailable.ts';
import { settlementChange } from '../run-log/settlement.ts';
import type { ToolCallJob } from '../../jobs/tool-calls.ts';
import { authorize, interruptionOf, type AttemptEnd, type ClaimedCall } from './attempt.ts';
import { applyLateResult, type LateResult } from './late-result.ts';
import { recheckClaim } from './recheck-claim.ts';
import { announceAppended, appendToRun, type AppendedChange } from '../run-log/append-to-run.ts';
import { turnJob } from '../run-log/turn-job.ts';
import { appended, callEvent, giveUpAttempt } from './tool-call-events.ts';

/** A job with its claim's id. */
interface Claiming extends ToolCallJob {
  claimId: string;
}

/**
 * Claims the call, or returns how its job ends. Infrastructure errors throw. Since nothing was sent then, a claim that may
 * have been committed is first given back, waiting for the database if necessary.
 */
export async function claimToolCall(
  context: Context,
  job: ToolCallJob,
  patience: { forMs: number; signal: AbortSignal },
): Promise<ClaimedCall | AttemptEnd> {
  const claiming = { ...job, claimId: newId() };
  try {
    return (await claimAtOnce(context, claiming)) ?? (await claimUnderLock(context, claiming));
  } catch (error) {
    await retryWhileUnavailable(() => giveBackClaim(context, claiming), patience);
    throw error;
  }
}

/** The end of an attempt that was claimed and not sent. */
export const NOT_SENT = {
  outcome: { kind: 'unreached', code: 'not_sent', message: 'The call was not sent.' },
  latencyMs: 0,
} as const satisfies LateResult;

/** Records that nothing was sent for a claim; no effect if the claim was not committed, or another has followed. */
export async function giveBackClaim(context: Context, { claimId, ...job }: Claiming): Promise<void> {
  await appendToRun(context, job, async (run, tx) => {
    const call = await lockToolCall(tx, job.callId);
    if (call?.claim_id !== claimId) return null;
    if (call.status === 'unknown')
      return applyLateResult(tx, { run, call, limitBytes: context.config.runOutputBytes }, NOT_SENT);
    if (call.status !== 'running') return null;
    return { events: [], calls: [isTerminal(run.status) ? unsentForGood(call) : giveUpAttempt(call, call.attempt)] };
  });
}

/** The run has ended and left the call to its worker: there is no further attempt. */
function unsentForGood(call: LedgerCall & { attempt: number }): CallChange {
  const settlement = settleForGood(NOT_SENT.outcome, call);
  return settlementChange({ callId: call.id, attempt: call.attempt, settlement, latencyMs: 0 });
}

/**
 * The usual case, in one round trip: the call is unchanged since its job was sent. Undefined if anything differs; nothing is
 * written then.
 */
async function claimAtOnce(context: Context, job: Claiming): Promise<ClaimedCall | undefined> {
  const { attempt, step, turnId, policyEpoch } = job;
  if (attempt === undefined || step === undefined || turnId === undefined || policyEpoch === undefined)
    return undefined;
  const claimed = await commitClaim(
    context,
    job,
    claimChange(
      { id: job.callId, turn_id: turnId, step, attempt },
      { leaseMs: context.config.leaseMs, claimId: job.claimId },
    ),
  );
  if (!claimed) return undefined;
  const { pins, ...call } = claimed;
  const pinned = await context.definitions.load({ tenantId: job.tenantId, ...pinsOf(pins) });
  return { call, attempt: call.attempt, agentId: pins.agent_id, ...toolOf(pinned, call.name) };
}

async function commitClaim(context: Context, job: Claiming, claim: AppendedChange): Promise<ClaimedCallRow | null> {
  const calls = claim.calls?.map((call) => ({ ...call, claim_call: true as const }));
  // Refused if the tenant's policies have changed since the call passed the gate.
  const { policyEpoch: policy_epoch } = job;
  const change: RunChange = {
    ...appended(job, claim.events),
    ...(policy_epoch !== undefined && { policy_epoch }),
    ...(calls && { calls }),
  };
  try {
    const result = await context.commit(change);
    if (!result.ok) return null;
    announceAppended(context, { runId: job.runId, ...result, outbox: [] });
    return result.claimed_call;
  } catch (error) {
    if (hasMovedOn(error)) return null;
    throw error;
  }
}

async function claimUnderLock(context: Context, job: Claiming): Promise<ClaimedCall | AttemptEnd> {
  let result: ClaimedCall | AttemptEnd = { kind: 'done' };
  await appendToRun(context, job, async (run, tx) => {
    const call = await lockToolCall(tx, job.callId);
    if (call?.remote && call.status !== 'pending' && call.status !== 'running') result = ABANDONED;
    if (!call || (call.status !== 'pending' && call.status !== 'running')) return null;
    const waitMs = Math.max(call.status === 'running' ? call.held_ms : 0, call.retry_in_ms);
    if (waitMs > 0) {
      result = { kind: 'later', waitMs, attempt: call.attempt };
      return null;
    }
    if (isTerminal(run.status)) {
      if (call.remote) result = ABANDONED;
      return call.status === 'running' ? interruptedForGood(call) : null;
    }
    // Only after the tool is loaded: see above.
    const pinned = await context.definitions.loadIn(tx, {
      tenantId: run.tenant_id,
      ...pinsOf({ ...run, tools: run.pinned.tools }),
    });
    const next = call.status === 'running' && !call.remote ? { ...call, error: interruptedAttempt(call) } : call;
    const claim = { call: next, attempt: call.attempt + 1, agentId: run.agent_id, ...toolOf(pinned, call.name) };
    const lost = call.status === 'running' ? interrupted({ ...claim, attempt: call.attempt }) : undefined;
    // A person who has to be asked is so at once, whatever else is at work.
    if (lost) return { ...lost, outbox: [turnJob(job)] };
    const authorization = await authorize(context, tx, { run, pinned, call });
    // Unchanged and without a job until the suspension is lifted.
    if (authorization.isSuspended) return null;
    // Looking at work elsewhere has no new effect: the gate has allowed its start.
    const stopped = call.remote ? undefined : await recheckClaim(tx, { run, call: next }, authorization);
    if (stopped) return { ...stopped, outbox: [turnJob(job)] };
    result = claim;
    return claimChange(next, { leaseMs: context.config.leaseMs, claimId: job.claimId, from: call.status });
  });
  return result;
}

function pinsOf({ agent_id: agentId, agent_version: agentVersion, tools }: ClaimedCallRow['pins']) {
  return { agentId, agentVersion, tools };
}

function toolOf(
  { definition, tools }: PinnedDefinitions,
  name: string,
): Pick<ClaimedCall, 'tool' | 'retry' | 'acceptsDuplicates' | 'questionSeconds'> {
  const tool = tools.get(name);
  if (!tool) throw new Error(`the run pins no tool ${name}`);
  const acceptsDuplicates = definition.execution_config?.on_unknown === 'retry';
  const questionSeconds = approvalSeconds(definition);
  return { tool, retry: tool.execution.retry_config, acceptsDuplicates, questionSeconds };
}

function claimChange(
  call: Pick<LedgerCall, 'id' | 'turn_id' | 'step' | 'remote' | 'error'> & { attempt: number },
  { leaseMs, claimId, from = 'pending' }: { leaseMs: number; claimId: string; from?: CallStatus },
): AppendedChange {
  const attempt = call.attempt + 1;
  const lost = from === 'running' && call.error && { error: call.error };
  const set = { status: 'running' as const, attempt, started_at: 'now', retry_at: null, ...lost };
  // Looks at work elsewhere are not logged.
  return {
    events: call.remote ? [] : [callEvent(call, { type: 'tool.started', payload: { tool_call_id: call.id, attempt } })],
    calls: [{ id: call.id, from: [from], attempt: call.attempt, set, lease_ms: leaseMs, claim_id: claimId }],
  };
}

const ABANDONED: AttemptEnd = { kind: 'done', abandons: true };

/** Settles a call whose worker was lost; undefined if it may be sent again. */
function interrupted(lost: ClaimedCall): AppendedChange | undefined {
  const { call, attempt } = lost;
  const settlement = interruptionOf(lost);
  if (!settlement) return undefined;
  const settled = { callId: call.id, attempt, settlement, latencyMs: 0 };
  return { events: [callEvent(call, settledEvent(settled))], calls: [settlementChange(settled)] };
}

function interruptedForGood(call: Omit<ClaimedCallRow, 'pins'>): AppendedChange {
  const { id, attempt, remote } = call;
  const settlement = remote ? abandoned(remote) : settleForGood(INTERRUPTED, call);
  return { events: [], calls: [settlementChange({ callId: id, attempt, settlement, latencyMs: 0 })] };
}
