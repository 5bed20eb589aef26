/** Events of a run's budgets. */
import { shareSpent, type BudgetStanding } from '../budget.ts';
import { OUT_OF_BUDGET, type NewEvent } from '../events.ts';
import type { RunState } from '../state.ts';
import { askApproval } from './approvals.ts';

/** The question to a person whether to go on. */
interface AskedToGoOn {
  approvalId: string;
  /** Fields of the question. */
  digest: string;
  seconds: number;
}

/** The budget has no room for another model call. */
export function exceedBudget({ turn }: RunState, standing: BudgetStanding): NewEvent {
  return { type: 'budget.exceeded', actor: 'system', turn_id: turn?.id, payload: standingOf(standing) };
}

/** Whether passing the soft limit asks a person: if the budget says so and no question is open. */
export function asksToGoOn({ budget }: RunState, standing: BudgetStanding): boolean {
  return standing.on_soft_limit === 'ask' && !budget.asked;
}

/** A soft limit was passed. */
export function warnOfBudget(state: RunState, standing: BudgetStanding, asked: AskedToGoOn | undefined): NewEvent[] {
  const payload = standingOf(standing);
  const warned: NewEvent = {
    type: 'budget.warned',
    actor: 'system',
    turn_id: state.turn?.id,
    payload: { ...payload, ...(asked && { approval_id: asked.approvalId }) },
  };
  if (!asked) return [warned];
  const about = {
    approval_id: asked.approvalId,
    kind: 'approval' as const,
    tool: OUT_OF_BUDGET,
    message: whyAsked(standing),
    arguments: payload,
    digest: asked.digest,
    expires_in_seconds: asked.seconds,
  };
  return [warned, askApproval(state.turn?.id, { about })];
}

function whyAsked(standing: BudgetStanding): string {
  const { budget_id: id, name } = standing;
  const which = id === null ? 'The budget of the run' : name === null ? 'A budget' : `The budget "${name}"`;
  return `${which} has passed its soft limit: ${Math.floor(100 * shareSpent(standing))}% of it is spent. May the run go on?`;
}

/** A budget in the form that events have. */
export function standingOf({ soft_limit: _soft, on_soft_limit: _on, ...payload }: BudgetStanding) {
  return payload;
}
