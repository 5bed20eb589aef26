/** Accounts for one call: reserved before, settled after, and logged in its run. */
import { lackOf } from '../../core/budget.ts';
import { noBudgetFor } from '../../core/decide.ts';
import { announceOwnCall, recordModelFailure, recordOwnAnswer } from '../../core/decision-events/model-calls.ts';
import { LIMITS } from '../../core/limits.ts';
import {
  promptTokens,
  type ModelError,
  type ModelRequest,
  type ModelResponse,
  type TokenUsage,
} from '../../core/model.ts';
import { checkBudgets, type ReservedCall } from '../../db/budgets.ts';
import type { Tx } from '../../db/database.ts';
import { beginOwnCall, NO_AGENT, renewOwnCallLease, settleOwnCall, type OwnCallEnd } from '../../db/own-model-calls.ts';
import { newId } from '../../lib/new-id.ts';
import { estimateRequest } from '../../llm/estimate-tokens.ts';
import type { ResolvedModel } from '../../llm/models.ts';
import { costOf, mostCostOf, priceOfAnswer } from '../../llm/prices.ts';
import { countSpending } from './count-spending.ts';
import type { ToolAsk, ToolFault } from './tool-ask.ts';
import type { ModelCallContext } from './model-call-context.ts';

export interface OwnCallOf extends Pick<
  ToolAsk<unknown>,
  'tenantId' | 'workspaceId' | 'agentId' | 'threadId' | 'run' | 'purpose' | 'record'
> {
  tool: string;
  resolved: ResolvedModel;
  request: ModelRequest;
}

export interface OpenedCall {
  /** Output tokens allowed by the budgets. */
  maxTokens: number;
  /** `also` is executed in the same transaction. */
  settle: (response: ModelResponse, also?: Also) => Promise<void>;
  fail: (error: ModelError) => Promise<void>;
  /** Nobody waits for the call any more: its lease is not renewed. */
  leave: () => void;
}

type Also = (tx: Tx) => Promise<void>;

/** Opens a call, or reports that no budget is left. */
export async function openOwnCall(context: ModelCallContext, of: OwnCallOf): Promise<OpenedCall | ToolFault> {
  const id = newId();
  const { resolved, request, record } = of;
  const { provider, model } = resolved;
  const input = estimateRequest(request);
  const cost = mostCostOf(provider, model, { input, output: request.maxTokens });
  await context.db.withTenantOnce(of.tenantId, (tx) =>
    beginOwnCall(tx, {
      id,
      tenantId: of.tenantId,
      workspaceId: of.workspaceId,
      agentId: of.agentId ?? null,
      threadId: of.threadId ?? null,
      runId: of.run?.id ?? null,
      rootRunId: of.run?.rootId ?? id,
      chain: of.run?.ancestors.map(({ run_id }) => run_id),
      purpose: of.purpose,
      provider,
      model,
      tokens: input + request.maxTokens,
      cost,
      leaseMs: context.config.leaseMs,
    }),
  );
  const granted = await announce(context, of, { id, input }).catch(async (error: unknown) => {
    // Nobody is asked. If this cannot be said either, the lease settles it.
    await end(context, of, { id, state: 'released', ...NOTHING }).catch(() => undefined);
    throw error;
  });
  if (typeof granted === 'object') {
    await end(context, of, { id, state: 'released', ...NOTHING, errorCode: 'budget' });
    return granted;
  }
  const startedMs = performance.now();
  const latency = () => Math.round(performance.now() - startedMs);
  return {
    maxTokens: granted,
    settle: (response, also) => settle(context, of, { id, response, latencyMs: latency(), also }),
    async fail(error) {
      const spent = spentBy(error, resolved);
      await end(context, of, { id, ...spent, errorCode: error.kind });
      if (spent.usage) countSpending(context, { provider, model, usage: spent.usage, cost: spent.cost });
      if (!record) return countAttempt(context, { outcome: 'failed', code: error.kind });
      const paid = spent.usage && { provider, usage: spent.usage, cost_usd: spent.cost };
      const failed = { model, tool: of.tool, error: { code: error.kind, message: error.message }, ...paid };
      record.append(recordModelFailure(record.state(), record.step, failed));
    },
    leave: keepLease(context, of.tenantId, id),
  };
}

/** Renews the call's lease by timer, until the returned function ends that. */
export function keepLease(
  { db, config: { leaseMs } }: Pick<ModelCallContext, 'db' | 'config'>,
  tenantId: string,
  id: string,
): () => void {
  const renew = () => db.withTenantOnce(tenantId, (tx) => renewOwnCallLease(tx, id, leaseMs));
  // If the database is away for so long, the call counts as lost until its answer settles it.
  const timer = setInterval(() => void renew().catch(() => undefined), leaseMs / 3);
  return () => clearInterval(timer);
}

/** The cost of a failed attempt: its usage until it broke off, otherwise nothing. */
function spentBy({ usage, tiers }: ModelError, { provider, model }: ResolvedModel): Omit<OwnCallEnd, 'errorCode'> {
  if (!usage) return { state: 'released', ...NOTHING };
  const tokensIn = promptTokens(usage);
  const cost = costOf(provider, model, { ...usage, tiers });
  return { state: stateFor(usage), tokensIn, tokensOut: usage.output, cost, usage };
}

/** The state of a call that is settled. */
export const stateFor = ({ estimated }: TokenUsage) => (estimated ? 'estimated' : 'settled');

/** What a call has used that was not made. */
export const NOTHING = { tokensIn: 0, tokensOut: 0, cost: '0' };

const NO_ROOM_YET: ToolFault = {
  code: 'unavailable',
  message: 'Calls under way hold what is left of a budget.',
  waitMs: LIMITS.budgetPauseMs,
};

/** Output tokens that the budgets allow, once the run's log says that the call begins, or why they allow too few. */
async function announce(
  context: ModelCallContext,
  of: OwnCallOf,
  call: { id: string; input: number },
): Promise<number | ToolFault> {
  const granted = await lookAtBudgets(context, of, call);
  const { record, resolved, tool } = of;
  if (typeof granted === 'object' || !record) return granted;
  const { provider, model } = resolved;
  const asked = { provider, model, tool, step: record.step, estimatedTokens: call.input, maxTokens: granted };
  record.append(announceOwnCall(record.state(), asked));
  await record.commit();
  return granted;
}

/** Output tokens that the budgets allow, or why they allow too few. */
async function lookAtBudgets(
  { db, budgets }: ModelCallContext,
  of: OwnCallOf,
  { id, input }: { id: string; input: number },
): Promise<number | ToolFault> {
  const { resolved, request, run } = of;
  const agent_id = of.agentId ?? NO_AGENT;
  const owner = { tenant_id: of.tenantId, workspace_id: of.workspaceId, agent_id };
  const isOfRun = run?.ancestors.some(({ budget }) => budget !== undefined);
  if (!isOfRun && !(await budgets.applyTo(owner))) return request.maxTokens;
  const { provider, model } = resolved;
  const output = request.maxTokens;
  const call: ReservedCall = {
    ...owner,
    run_id: id,
    root_run_id: run?.rootId ?? id,
    step: 0,
    fence: 0,
    ...(run && { ancestors: run.ancestors }),
    input,
    input_cost: mostCostOf(provider, model, { input }),
    output,
    output_cost: mostCostOf(provider, model, { output }),
    least: Math.min(output, LIMITS.budgetLeastOutputTokens),
  };
  const verdict = await checkBudgets(db, call);
  if (verdict.fits) return verdict.output;
  if (verdict.waits) return NO_ROOM_YET;
  const short = verdict.standings.find(({ key }) => key === verdict.short);
  const { message } = noBudgetFor(short && lackOf(short, call));
  return { code: 'budget', message };
}

async function settle(
  context: ModelCallContext,
  of: OwnCallOf,
  answered: { id: string; response: ModelResponse; latencyMs: number; also: Also | undefined },
): Promise<void> {
  const { id, response, latencyMs, also } = answered;
  const { provider, model, usage, stopReason } = response;
  const price = priceOfAnswer(of.resolved.model, response);
  const { cost } = price;
  const tokensIn = promptTokens(usage);
  await end(context, of, { id, state: stateFor(usage), tokensIn, tokensOut: usage.output, cost, usage, also });
  countSpending(context, { provider, model, usage, cost });
  if (!of.record) return countAttempt(context, { outcome: 'succeeded', code: '', latencyMs });
  const { record, tool } = of;
  const call = { provider, model, tool, step: record.step, stopReason, usage, latencyMs };
  record.append(recordOwnAnswer(record.state(), { ...call, ...price }));
}

/** Counts an attempt that is in no run's log; the others are counted when their events are committed. */
function countAttempt(
  { metrics }: ModelCallContext,
  { outcome, code, latencyMs }: { outcome: string; code: string; latencyMs?: number },
): void {
  metrics.outcomes.model_call.inc({ outcome, code });
  if (latencyMs !== undefined) metrics.outcomeSeconds.model_call.observe({ outcome }, latencyMs / 1000);
}

function end(
  { db }: ModelCallContext,
  { tenantId }: OwnCallOf,
  { id, also, ...how }: OwnCallEnd & { id: string; also?: Also | undefined },
): Promise<void> {
  if (!also) return db.withTenantOnce(tenantId, (tx) => settleOwnCall(tx, id, how));
  return db.withTenant(tenantId, async (tx) => void (await Promise.all([settleOwnCall(tx, id, how), also(tx)])));
}
