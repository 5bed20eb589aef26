import assert from 'node:assert/strict';
import { lackOf, type BudgetStanding } from '../../core/budget.ts';

describe('What a budget lacks for a model call', () => {
  const standing = (more: Partial<BudgetStanding>): BudgetStanding => ({
    key: 'run',
    budget_id: null,
    name: null,
    max_tokens: null,
    max_cost_usd: null,
    max_steps: null,
    soft_limit: null,
    on_soft_limit: null,
    spent: { tokens: 0, cost_usd: 0, steps: 0 },
    open: { tokens: 0, cost_usd: 0, steps: 0 },
    ...more,
  });
  const call = { input: 1548, input_cost: '0.0119', output: 3200, output_cost: '0.04', least: 32 };

  it('is told in the unit of the limit that leaves no room', () => {
    const spent = { tokens: 900, cost_usd: 0.02, steps: 3 };
    const told = (more: Partial<BudgetStanding>) => lackOf(standing({ spent, ...more }), call);
    assert.equal(told({ max_tokens: 2000 }), 'it needs about 1,580 tokens, and 1,100 of 2,000 are left');
    assert.equal(told({ max_tokens: 900 }), 'it needs about 1,580 tokens, and 0 of 900 are left');
    assert.equal(told({ max_cost_usd: 0.03 }), 'it needs about 0.0123 USD, and 0.01 of 0.03 are left');
    assert.equal(told({ max_steps: 3 }), 'all 3 calls are made');
    assert.equal(told({ max_tokens: 5000, max_steps: 3 }), 'all 3 calls are made');
  });

  it('is nothing where calls under way alone leave no room, or the price is not known', () => {
    assert.equal(
      lackOf(standing({ max_tokens: 5000, open: { tokens: 5000, cost_usd: 0, steps: 1 } }), call),
      undefined,
    );
    assert.equal(lackOf(standing({ max_cost_usd: 0.001 }), { ...call, input_cost: null }), undefined);
  });
});
