/**
 * Holds model calls to their budgets: the commit before a call reserves its maximum, and the commit of its answer
 * settles it. Runs without a budget pay nothing for this.
 */
import { findUsedUp, lackOf, passedSoftLimits, shareSpent, withCall, type BudgetStanding } from '../../core/budget.ts';
import { asksToGoOn, exceedBudget, standingOf, warnOfBudget } from '../../core/decision-events/budgets.ts';
import { approvalSeconds, type AgentDefinition } from '../../core/definition.ts';
import { digestOf } from '../../core/ids.ts';
import { newId } from '../../lib/new-id.ts';
import { LIMITS } from '../../core/limits.ts';
import { promptTokens, type ModelRequest, type ModelResponse, type TokenUsage } from '../../core/model.ts';
import { addMoney } from '../../core/money.ts';
import type { RunRow } from '../../db/claim-run.ts';
import { checkBudgets, type BudgetVerdict, type ReservedCall } from '../../db/budgets.ts';
import { estimateRequest } from '../../llm/estimate-tokens.ts';
import { mostCostOf } from '../../llm/prices.ts';
import type { BudgetCache } from './budget-cache.ts';
import { findUsedUpBudget } from './find-used-up-budget.ts';
import type { RunLogContext } from '../run-log/run-log-context.ts';
import { appendEvent, type RunLog } from '../run-log/run-log.ts';

/** Tokens, and money as a decimal; null if a price is unknown. */
export interface Spent {
  tokens: number;
  cost_usd: string | null;
}

export function addSpent(sum: Spent | null | undefined, more: Spent): Spent {
  return sum ? { tokens: sum.tokens + more.tokens, cost_usd: addMoney(sum.cost_usd, more.cost_usd) } : more;
}

/** All tokens of a call, answer included. */
export const tokensOf = (usage: TokenUsage): number => promptTokens(usage) + usage.output;

/** The reservation for a model call. */
export interface Reservation {
  step: number;
  /** Null if no budget applies. */
  call: ReservedCall | null;
  /** Output tokens that may be requested, the tightest budget, and all that apply; absent until budgets are checked. */
  granted?: { output: number; by: BudgetStanding | undefined; standings: BudgetStanding[] };
}

/** A run whose model calls are held to its budgets. */
interface BudgetedDrive {
  readonly context: Pick<RunLogContext, 'db'> & { budgets: BudgetCache };
  readonly tenantId: string;
  readonly run: RunRow;
  readonly fence: number;
  readonly definition: AgentDefinition;
  readonly log: RunLog;
  /** Whether a budget applied at the last lookup. */
  isBudgeted: boolean;
  /** What the last call that was refused lacked. */
  lack?: string | undefined;
  /**
   * `reservation`: what is reserved for the step's model call, until settled. `inVain`: spent by attempts without an
   * answer.
   */
  step: { reservation: Reservation | null; inVain?: Spent | null };
}

/** What to do about a model call: make it, try again soon, or follow the run's new state. */
type BudgetAnswer = 'go' | 'later' | 'decide';

/** Looks up whether a budget applies to the run, in a cache of a few seconds. */
export async function findBudgets(drive: BudgetedDrive): Promise<void> {
  const { budget, ancestors = [] } = drive.run.config;
  const isBudgeted = budget !== undefined || ancestors.some((above) => above.budget !== undefined);
  drive.isBudgeted = isBudgeted || (await drive.context.budgets.applyTo(drive.run));
}

/** Reserves, with the next commit, the maximum that a step's model call may use. */
export function reserve(
  drive: BudgetedDrive,
  asked: { step: number; provider: string; model: string; request: () => ModelRequest },
): void {
  const { run } = drive;
  const { step, provider, model } = asked;
  // If announced before it was known that a budget applies, nothing is reserved yet.
  const { reservation } = drive.step;
  if (reservation && (reservation.call || !drive.isBudgeted)) return;
  drive.step.reservation = { step, call: null };
  if (!drive.isBudgeted) return;
  const budget = drive.run.config.budget;
  const request = asked.request();
  const input = estimateRequest(request);
  const output = request.maxTokens;
  const { workspace_id, agent_id, root_run_id } = run;
  const { ancestors } = run.config;
  const call: ReservedCall = {
    tenant_id: drive.tenantId,
    run_id: run.id,
    root_run_id,
    ...(ancestors && { ancestors }),
    workspace_id,
    agent_id,
    step,
    fence: drive.fence,
    run_budget: budget,
    input,
    input_cost: mostCostOf(provider, model, { input }),
    output,
    output_cost: mostCostOf(provider, model, { output }),
    least: Math.min(output, LIMITS.budgetLeastOutputTokens),
  };
  drive.step.reservation = { step, call };
  const cost_usd = mostCostOf(provider, model, { input, output });
  drive.log.pending.reservations.push({
    step,
    tokens: input + output,
    cost_usd,
    workspace_id,
    agent_id,
    root_run_id,
    ...(ancestors && { chain: ancestors.map(({ run_id }) => run_id) }),
  });
}

/**
 * Checks the budgets once the reservation is committed. The result is in the run's state: a soft limit was passed, a
 * person is asked, or the turn must stop.
 */
export async function lookAtBudgets(drive: BudgetedDrive): Promise<BudgetAnswer> {
  const reserved = drive.step.reservation;
  if (!reserved?.call || reserved.granted) return 'go';
  drive.lack = undefined;
  const verdict = await checkBudgets(drive.context.db, reserved.call);
  if (!verdict.fits) return handleRefusal(drive, reserved.call, verdict);
  const passed = passedSoftLimits(verdict.standings, drive.log.state.budget.warned);
  for (const standing of passed) warn(drive, standing);
  if (drive.log.state.budget.asked) {
    releaseReservation(drive);
    return 'decide';
  }
  const [by] = verdict.standings.toSorted((a, b) => shareSpent(b) - shareSpent(a));
  reserved.granted = { output: verdict.output, by, standings: verdict.standings };
  return 'go';
}

function handleRefusal(
  drive: BudgetedDrive,
  call: ReservedCall,
  verdict: Extract<BudgetVerdict, { fits: false }>,
): BudgetAnswer {
  drive.step.reservation = null;
  if (verdict.waits) return 'later';
  const short = verdict.standings.find(({ key }) => key === verdict.short);
  if (short) {
    exceed(drive, short);
    drive.lack = lackOf(short, call);
  }
  return 'decide';
}

/**
 * Settles the reservation at the answer's usage, in the answer's commit. Returns the budget that is used up by it, if
 * any: the calls that the model requests are then not made.
 */
export function settleAnswer(
  drive: BudgetedDrive,
  answer: { response: ModelResponse; cost: string | null; recorded: boolean },
): BudgetStanding | undefined {
  const { response, cost, recorded } = answer;
  const reserved = drive.step.reservation;
  drive.step.reservation = null;
  if (!reserved?.call) return undefined;
  const { usage } = response;
  const { inVain } = drive.step;
  const answered = { tokens: recorded ? 0 : tokensOf(usage), cost_usd: cost };
  const { tokens, cost_usd } = addSpent(inVain, answered);
  // Includes what earlier attempts have spent, so it exceeds the answer's usage.
  const settle = usage.estimated || inVain ? 'estimated' : 'settled';
  drive.log.pending.reservations.push({ step: reserved.step, settle, tokens, cost_usd });
  const { granted } = reserved;
  if (!granted) return undefined;
  // The model got fewer output tokens than the agent allows, and used them all.
  const wasCut = response.stopReason === 'max_tokens' && granted.output < reserved.call.output;
  const after = (standing: BudgetStanding) => withCall(standing, { tokens, cost_usd: Number(cost_usd ?? 0) });
  const cutBy = granted.by && after(granted.by);
  const usedUp = wasCut ? cutBy : findUsedUp(granted.standings.map(after));
  // An answer that ends its turn stands, whatever it cost.
  if (!usedUp || (!wasCut && drive.log.state.turn?.answer)) return undefined;
  exceed(drive, usedUp);
  return usedUp;
}

/**
 * The budget that is used up by what is committed, if any; the log says so. For calls that no model's answer asks for,
 * which are then not made.
 */
export async function findExceededBudget(drive: BudgetedDrive): Promise<BudgetStanding | undefined> {
  await findBudgets(drive);
  if (!drive.isBudgeted) return undefined;
  const { context, tenantId, run } = drive;
  const usedUp = await context.db.withTenant(tenantId, (tx) => findUsedUpBudget(tx, run));
  if (usedUp) exceed(drive, usedUp);
  return usedUp;
}

/** Settles the reservation of a call without an answer, at what its attempts have cost; one of which nothing came is free. */
export function releaseReservation(drive: BudgetedDrive): void {
  const reserved = drive.step.reservation;
  drive.step.reservation = null;
  if (!reserved?.call) return;
  const { inVain } = drive.step;
  const settled = inVain ? ({ settle: 'estimated', ...inVain } as const) : ({ settle: 'released' } as const);
  drive.log.pending.reservations.push({ step: reserved.step, ...settled });
}

function exceed({ log }: BudgetedDrive, standing: BudgetStanding): void {
  appendEvent(log, exceedBudget(log.state, standing));
}

function warn({ log, definition }: BudgetedDrive, standing: BudgetStanding): void {
  const digest = digestOf(standingOf(standing));
  const ask = { approvalId: newId(), digest, seconds: approvalSeconds(definition) };
  appendEvent(log, ...warnOfBudget(log.state, standing, asksToGoOn(log.state, standing) ? ask : undefined));
}
