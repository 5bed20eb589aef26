/** Claiming a call for an attempt: in a commit of its own, before anything is sent. */
import { settledEvent } from '../../core/decision-events/tool-calls.ts';
import { INTERRUPTED, settleForGood } from '../../core/ledger.ts';
import { isTerminal, type RunStatus } from '../../core/events.ts';
import type { CallStatus } from '../../core/state.ts';
import { hasMovedOn } from '../../db/database.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { GivenCall, RunChange } from '../../db/commit-run.ts';
import { lockToolCall } from '../../db/turns.ts';
import type { Context } from '../governance/context.ts';
import { loadDefinitions, loadDefinitionsIn, type PinnedDefinitions } from '../agents/definitions.ts';
import { settlementChange } from '../run-log/settlement.ts';
import type { ToolCallJob } from '../../jobs/tool-call.ts';
import { authorize, interruptionOf, type AttemptEnd, type ClaimedCall } from './attempt.ts';
import { recheckClaim } from './recheck-claim.ts';
import { announceAppended, appendToRun, type AppendedChange } from '../run-log/append-to-run.ts';
import { appended, callEvent, giveUpAttempt, wakeOf } from './tool-call-events.ts';

/** Claims the call, or says how its job ends. Infrastructure errors throw. */
export async function claimToolCall(context: Context, job: ToolCallJob): Promise<ClaimedCall | AttemptEnd> {
  return (await claimAtOnce(context, job)) ?? (await claimUnderLock(context, job));
}

/**
 * The usual case in one round trip: the call is as it was when its job was sent. Undefined where anything is different;
 * nothing was written then.
 */
async function claimAtOnce(context: Context, job: ToolCallJob): Promise<ClaimedCall | undefined> {
  const { attempt, step, turnId, governance } = job;
  if (attempt === undefined || step === undefined || turnId === undefined || governance === undefined) return undefined;
  const given = await giveCall(context, job, claimChange({ id: job.callId, turn_id: turnId, step, attempt }, context));
  if (!given) return undefined;
  const { pins, ...call } = given;
  try {
    return {
      call,
      attempt: call.attempt,
      ...toolOf(await loadDefinitions(context.db, { tenantId: job.tenantId, ...pins }), call.name),
    };
  } catch (error) {
    // A claim that could not be used would look like an attempt that was lost.
    await appendToRun(context, job, () => ({ events: [], calls: [giveUpAttempt(call, call.attempt)] }));
    throw error;
  }
}

async function giveCall(context: Context, job: ToolCallJob, claim: AppendedChange): Promise<GivenCall | null> {
  const calls = claim.calls?.map((call) => ({ ...call, give: true as const }));
  // Refused where the tenant's policies have changed since the call passed the gate.
  const { governance } = job;
  const change: RunChange = {
    ...appended(job, claim.events),
    ...(governance !== undefined && { governance }),
    ...(calls && { calls }),
  };
  try {
    const result = await context.commit(change);
    if (!result.ok) return null;
    announceAppended(context, { runId: job.runId, ...result, outbox: [] });
    return result.given;
  } catch (error) {
    if (hasMovedOn(error)) return null;
    throw error;
  }
}

async function claimUnderLock(context: Context, job: ToolCallJob): Promise<ClaimedCall | AttemptEnd> {
  let result: ClaimedCall | AttemptEnd = { kind: 'done' };
  await appendToRun(context, job, async (run, tx) => {
    const call = await lockToolCall(tx, job.callId);
    if (!call || (call.status !== 'pending' && call.status !== 'running')) return null;
    const waitMs = Math.max(call.status === 'running' ? call.held_ms : 0, call.retry_in_ms);
    if (waitMs > 0) {
      result = { kind: 'later', waitMs };
      return null;
    }
    if (isTerminal(run.status as RunStatus)) return call.status === 'running' ? interruptedForGood(call) : null;
    // Only with the tool at hand: see above.
    const pinned = await loadDefinitionsIn(tx, { tenantId: run.tenant_id, ...pinsOf(run) });
    const claim = { call, attempt: call.attempt + 1, ...toolOf(pinned, call.name) };
    const lost = call.status === 'running' ? interrupted({ ...claim, attempt: call.attempt }) : undefined;
    if (lost) return { ...lost, wake: wakeOf(job) };
    const authorization = await authorize(context, tx, { run, pinned, call });
    // It stays as it is, without a job, until the suspension is lifted.
    if (authorization.isSuspended) return null;
    const stopped = await recheckClaim(tx, { run, call }, authorization);
    if (stopped) return { ...stopped, wake: wakeOf(job) };
    result = claim;
    return claimChange(call, context, call.status);
  });
  return result;
}

function pinsOf(run: RunRow) {
  return { agentId: run.agent_id, agentVersion: run.agent_version, tools: run.pinned.tools };
}

function toolOf(
  { definition, tools }: PinnedDefinitions,
  name: string,
): Pick<ClaimedCall, 'tool' | 'retry' | 'acceptsDuplicates'> {
  const tool = tools.get(name);
  if (!tool) throw new Error(`the run pins no tool ${name}`);
  const acceptsDuplicates = definition.execution_config?.on_unknown === 'retry';
  return { tool, retry: tool.execution.retry_config, acceptsDuplicates };
}

function claimChange(
  call: { id: string; turn_id: string; step: number; attempt: number },
  { config }: Context,
  from: CallStatus = 'pending',
): AppendedChange {
  const attempt = call.attempt + 1;
  const set = { status: 'running', attempt, started_at: 'now', retry_at: null };
  return {
    events: [callEvent(call, { type: 'tool.started', payload: { tool_call_id: call.id, attempt } })],
    calls: [{ id: call.id, from: [from], attempt: call.attempt, set, lease_ms: config.leaseMs }],
  };
}

/** What becomes of a call whose worker was lost; undefined where it may be sent again. */
function interrupted(lost: ClaimedCall): AppendedChange | undefined {
  const { call, attempt } = lost;
  const settlement = interruptionOf(lost);
  if (!settlement) return undefined;
  const settled = { callId: call.id, attempt, settlement, latencyMs: 0 };
  return { events: [callEvent(call, settledEvent(settled))], calls: [settlementChange(settled)] };
}

function interruptedForGood({ id, attempt, effect }: Pick<GivenCall, 'id' | 'attempt' | 'effect'>): AppendedChange {
  const settlement = settleForGood(INTERRUPTED, effect);
  return { events: [], calls: [settlementChange({ callId: id, attempt, settlement, latencyMs: 0 })] };
}
