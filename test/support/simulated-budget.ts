/** What budgets say in a simulated run. */
import type { RunState } from '../../core/state.ts';
import type { People } from './simulated-people.ts';

const NOTHING = { tokens: 0, cost_usd: 0, steps: 0 };
const LIMITS = { budget_id: null, name: null, max_tokens: 1, max_cost_usd: null, max_steps: null };

/** Before a model call; whether it may be made. The plainest (0) says nothing. */
export function lookAtBudget({ emit, pick, nextId }: People): boolean {
  const about = { key: nextId(), ...LIMITS, spent: NOTHING, open: NOTHING };
  switch (pick(20)) {
    case 17:
      emit({ type: 'budget.exceeded', actor: 'system', payload: about });
      return false;
    case 18:
      emit({ type: 'budget.warned', actor: 'system', payload: about });
      return true;
    case 19: {
      const approval_id = nextId();
      emit({ type: 'budget.warned', actor: 'system', payload: { ...about, approval_id } });
      const asked = { approval_id, kind: 'approval' as const, tool: 'budget', digest: 'd', expires_in_seconds: 1 };
      emit({ type: 'approval.requested', actor: 'system', payload: asked });
      return false;
    }
    default:
      return true;
  }
}

/** Somebody says whether to go on, or nobody does in time. */
export function decideOnBudget({ emit, pick }: People, { budget }: RunState): void {
  const about = { approval_id: budget.asked ?? '' };
  switch (pick(3)) {
    case 1:
      return emit({ type: 'approval.denied', actor: 'user', payload: about });
    case 2:
      return emit({ type: 'approval.expired', actor: 'system', payload: about });
    default:
      return emit({ type: 'approval.granted', actor: 'user', payload: { ...about, digest: 'd', edited: false } });
  }
}
