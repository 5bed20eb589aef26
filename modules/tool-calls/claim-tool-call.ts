/** Claiming a call for an attempt: in a commit of its own, before anything is sent. */
import { INTERRUPTED, settleAttempt, settleForGood } from '../../core/ledger.ts';
import { isTerminal } from '../../core/events.ts';
import type { CallStatus } from '../../core/state.ts';
import type { ToolDefinition } from '../../core/tool.ts';
import { hasMovedOn } from '../../db/database.ts';
import type { ClaimedCallRow, RunChange } from '../../db/commit-run.ts';
import { lockToolCall } from '../../db/turns.ts';
import type { Context } from '../governance/context.ts';
import type { PinnedDefinitions } from '../agents/definitions.ts';
import { settlementChange, settlementEvent } from '../run-log/settlement.ts';
import { suspendedBy } from '../governance/governance.ts';
import type { ToolCallJob } from '../../jobs/tool-calls.ts';
import { recheckClaim } from './recheck-claim.ts';
import { announceAppended, appendToRun, type AppendedChange } from '../run-log/append-to-run.ts';
import { appended, callEvent, giveUpAttempt, continuationOf } from './tool-call-events.ts';

/** How the job ends: done, or to be looked at again after a while (another attempt holds the call, or a retry is due). */
export type ToolCallEnd = { kind: 'done' } | { kind: 'later'; waitMs: number };

/** A call as an attempt needs it; `attempt` counts this one. */
export interface ClaimedCall {
  call: Omit<ClaimedCallRow, 'pins' | 'attempt'>;
  attempt: number;
  tool: ToolDefinition;
  acceptsDuplicates: boolean;
}

/** Claims the call, or says how its job ends. Infrastructure errors throw. */
export async function claimToolCall(context: Context, job: ToolCallJob): Promise<ClaimedCall | ToolCallEnd> {
  return (await claimAtOnce(context, job)) ?? (await claimUnderLock(context, job));
}

/**
 * The usual case in one round trip: the call is as it was when its job was sent. Undefined where anything is different;
 * nothing was written then.
 */
async function claimAtOnce(context: Context, job: ToolCallJob): Promise<ClaimedCall | undefined> {
  const { attempt, step, turnId, policyEpoch } = job;
  if (attempt === undefined || step === undefined || turnId === undefined || policyEpoch === undefined)
    return undefined;
  const claimed = await commitClaim(
    context,
    job,
    claimChange({ id: job.callId, turn_id: turnId, step, attempt }, context),
  );
  if (!claimed) return undefined;
  const { pins, ...call } = claimed;
  try {
    return {
      call,
      attempt: call.attempt,
      ...toolOf(await context.definitions.load({ tenantId: job.tenantId, ...pinsOf(pins) }), call.name),
    };
  } catch (error) {
    // A claim that could not be used would look like an attempt that was lost.
    await appendToRun(context, job, () => ({ events: [], calls: [giveUpAttempt(call, call.attempt)] }));
    throw error;
  }
}

async function commitClaim(context: Context, job: ToolCallJob, claim: AppendedChange): Promise<ClaimedCallRow | null> {
  const calls = claim.calls?.map((call) => ({ ...call, claim_call: true as const }));
  // Refused where the tenant's policies have changed since the call passed the gate.
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

async function claimUnderLock(context: Context, job: ToolCallJob): Promise<ClaimedCall | ToolCallEnd> {
  let result: ClaimedCall | ToolCallEnd = { kind: 'done' };
  await appendToRun(context, job, async (run, tx) => {
    const call = await lockToolCall(tx, job.callId);
    if (!call || (call.status !== 'pending' && call.status !== 'running')) return null;
    const waitMs = Math.max(call.status === 'running' ? call.held_ms : 0, call.retry_in_ms);
    if (waitMs > 0) {
      result = { kind: 'later', waitMs };
      return null;
    }
    if (isTerminal(run.status)) return call.status === 'running' ? interruptedForGood(call) : null;
    // Only with the tool at hand: see above.
    const definitions = await context.definitions.loadIn(tx, {
      tenantId: run.tenant_id,
      ...pinsOf({ ...run, tools: run.pinned.tools }),
    });
    const claim = { call, attempt: call.attempt + 1, ...toolOf(definitions, call.name) };
    const lost = call.status === 'running' ? interrupted(claim, call.attempt) : undefined;
    if (lost) return { ...lost, continuation: continuationOf(job) };
    // It stays as it is, without a job, until the suspension is lifted.
    const governance = await context.governance.current(tx, job.tenantId);
    if (suspendedBy(governance, run.agent_id)) return null;
    const stopped = await recheckClaim(context, tx, { run, call });
    if (stopped) return { ...stopped, continuation: continuationOf(job) };
    result = claim;
    return claimChange(call, context, call.status);
  });
  return result;
}

function pinsOf({ agent_id: agentId, agent_version: agentVersion, tools }: ClaimedCallRow['pins']) {
  return { agentId, agentVersion, tools };
}

function toolOf(
  { definition, tools }: PinnedDefinitions,
  name: string,
): Pick<ClaimedCall, 'tool' | 'acceptsDuplicates'> {
  const tool = tools.get(name);
  if (!tool) throw new Error(`the run pins no tool ${name}`);
  return { tool, acceptsDuplicates: definition.execution_config?.on_unknown === 'retry' };
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
function interrupted({ call, tool, acceptsDuplicates }: ClaimedCall, attempt: number): AppendedChange | undefined {
  const retry = tool.execution.retry_config;
  const settlement = settleAttempt(INTERRUPTED, { effect: call.effect, attempt, retry, acceptsDuplicates });
  if (settlement.status === 'retry') return undefined;
  const settled = { callId: call.id, attempt, settlement, latencyMs: 0 };
  return { events: [callEvent(call, settlementEvent(settled))], calls: [settlementChange(settled)] };
}

function interruptedForGood({
  id,
  attempt,
  effect,
}: Pick<ClaimedCallRow, 'id' | 'attempt' | 'effect'>): AppendedChange {
  const settlement = settleForGood(INTERRUPTED, effect);
  return { events: [], calls: [settlementChange({ callId: id, attempt, settlement, latencyMs: 0 })] };
}
