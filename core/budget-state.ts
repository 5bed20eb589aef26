/** The part of a run's state that budget decisions depend on. */
import type { RunEvent } from './events.ts';

export interface BudgetState {
  /** Keys of budgets whose soft limit has been reported. */
  warned: string[];
  /** The open approval that asks whether to go on beyond a soft limit. */
  asked: string | null;
}

export const NO_BUDGET: BudgetState = { warned: [], asked: null };

interface WithBudget<T> {
  budget: BudgetState;
  turn: T | null;
}

interface BudgetChange<T> {
  budget?: BudgetState;
  turn?: (T & { outOfBudget: boolean }) | null;
  /** Discards the announced call, which is not made. */
  modelCall?: null;
}

/** How an event changes the budget state; undefined if it does not. */
export function budgetChange<T extends object>(state: WithBudget<T>, event: RunEvent): BudgetChange<T> | undefined {
  const { budget, turn } = state;
  switch (event.type) {
    case 'budget.warned': {
      const { key, approval_id: asked = null } = event.payload;
      return { budget: { warned: [...budget.warned, key], asked: asked ?? budget.asked } };
    }
    case 'budget.exceeded':
      return { turn: turn && { ...turn, outOfBudget: true }, modelCall: null };
    case 'approval.granted':
      return event.payload.approval_id === budget.asked ? { budget: { ...budget, asked: null } } : undefined;
    case 'approval.denied':
    case 'approval.expired':
      if (event.payload.approval_id !== budget.asked) return undefined;
      return { budget: { ...budget, asked: null }, turn: turn && { ...turn, outOfBudget: true }, modelCall: null };
    default:
      return undefined;
  }
}
