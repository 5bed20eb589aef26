/** What budgets say in a simulated run. */
import type { BudgetStanding } from '../../core/budget.ts';
import { grantApproval, refuseApproval } from '../../core/decision-events/approvals.ts';
import { asksToGoOn, exceedBudget, warnOfBudget } from '../../core/decision-events/budgets.ts';
import type { People } from './simulated-people.ts';

const NOTHING = { tokens: 0, cost_usd: 0, steps: 0 };
const LIMITS = { budget_id: null, name: null, max_tokens: 1, max_cost_usd: null, max_steps: null, soft_limit: null };

/** Before a model call; whether it may be made. The plainest (0) says nothing. */
export function lookAtBudget({ emit, state, pick, nextId }: People): boolean {
  const about = { key: nextId(), ...LIMITS, spent: NOTHING, open: NOTHING };
  switch (pick(20)) {
    case 17:
      emit(exceedBudget(state(), { ...about, on_soft_limit: null }));
      return false;
    case 18:
      emit(...warnOfBudget(state(), { ...about, on_soft_limit: 'warn' }, undefined));
      return true;
    case 19: {
      const standing: BudgetStanding = { ...about, on_soft_limit: 'ask' };
      const ask = { approvalId: nextId(), digest: 'd', seconds: 1 };
      emit(...warnOfBudget(state(), standing, asksToGoOn(state(), standing) ? ask : undefined));
      return false;
    }
    default:
      return true;
  }
}

/** Somebody says whether to go on, or nobody does in time. */
export function decideOnBudget({ emit, state, pick }: People): void {
  const approval = { approvalId: state().budget.asked ?? '', turnId: state().turn?.id, calls: [] };
  switch (pick(3)) {
    case 1:
      return emit(...refuseApproval(approval, { kind: 'denied', decidedBy: undefined, message: 'm' }));
    case 2:
      return emit(...refuseApproval(approval, { kind: 'expired', message: 'm' }));
    default:
      return emit(...grantApproval(approval, { digest: 'd', edited: false }));
  }
}
