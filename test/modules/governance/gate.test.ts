import assert from 'node:assert/strict';
import type { BudgetStanding } from '../../../core/budget.ts';
import { RISK_LEVELS, type RiskLevel, type ToolDefinition } from '../../../core/tool.ts';
import { gate } from '../../../modules/governance/gate.ts';
import type { GateInput } from '../../../modules/governance/stages/stage.ts';
import { governanceOf } from '../../support/governance.ts';
import { createArgumentValidator } from '../../../tools/validate-arguments.ts';
import { toolOf } from '../../support/tool-attempt.ts';

const { validateArguments } = createArgumentValidator();

const PAY: ToolDefinition = {
  ...toolOf({ type: 'http', endpoint: 'https://bank.example/pay' }, 'pay'),
  input_schema: { type: 'object', properties: { amount: { type: 'number' } }, required: ['amount'] },
  permissions: [
    { name: 'payments', required: true },
    { name: 'nice to have', required: false },
  ],
  risk_level: 'WRITE_HIGH_RISK',
};

const SPENT: BudgetStanding = {
  key: 'run',
  budget_id: null,
  name: null,
  max_tokens: 100,
  max_cost_usd: null,
  max_steps: null,
  soft_limit: null,
  on_soft_limit: null,
  spent: { tokens: 100, cost_usd: 0, steps: 1 },
  open: { tokens: 0, cost_usd: 0, steps: 0 },
};

/** A call that no stage lets pass; `mended` mends the stages before the one under test. */
function callWithEveryFault(mended: Partial<GateInput>): GateInput {
  return {
    governance: governanceOf([]),
    agent: { id: 'agent-1', name: 'a' },
    run: { id: 'run-1' },
    definition: { name: 'a', guardrail_config: { tool_rails: { allowed_tools: ['other'], max_calls_per_turn: 2 } } },
    autonomyLevel: 0,
    userId: '',
    tools: new Map(),
    name: 'pay',
    arguments: { amount: 'much' },
    callsInTurn: 2,
    usedUp: SPENT,
    validate: validateArguments,
    ...mended,
  };
}

const known = { tools: new Map([['pay', PAY]]) };
const valid = { ...known, arguments: { amount: 1 } };
const permitted = (allowed: string[], most: number) => ({
  ...valid,
  definition: {
    name: 'a',
    permissions: ['payments'],
    guardrail_config: { tool_rails: { allowed_tools: allowed, max_calls_per_turn: most } },
  },
});

const unspent = (most: number) => ({ ...permitted(['pay'], most), usedUp: undefined });

describe('The gate', () => {
  const stages: [refuses: string, call: Partial<GateInput>, kind: string, code: string, message: RegExp][] = [
    ['a tool that the agent does not have', {}, 'invalid', 'unknown_tool', /^Unknown tool "pay"\. Available: none\.$/],
    [
      'bad arguments, naming the field',
      known,
      'invalid',
      'invalid_arguments',
      /^Invalid arguments: \/(: must have required property 'amount'|amount: )/,
    ],
    ['a missing permission', valid, 'deny', 'permission_denied', /^Permission denied: the agent lacks "payments"\.$/],
    ['a tool outside the rails', permitted(['other'], 2), 'deny', 'tool_not_allowed', /^Permission denied: .*"pay"/],
    ['a call beyond the most of a turn', permitted(['pay'], 2), 'deny', 'too_many_calls', /used up its 2 tool calls/],
    ['any where the budget is used up', permitted(['pay'], 3), 'deny', 'budget', /^The run's budget is used up/],
    ['what needs a person', unspent(3), 'ask', 'needs_approval', /WRITE_HIGH_RISK .* autonomy level 0/],
  ];
  stages.forEach(([refuses, call, kind, code, message], index) => {
    it(`refuses, ${index + 1}. of ${stages.length}, ${refuses}`, () => {
      const decision = gate(callWithEveryFault(call));
      assert.ok(decision.kind !== 'allow');
      assert.deepEqual([decision.kind, decision.code], [kind, code]);
      assert.match(decision.message, message);
    });
  });

  it('lets a call pass that every stage lets pass', () => {
    const decision = gate(callWithEveryFault({ ...unspent(3), autonomyLevel: 3 }));
    assert.deepEqual([decision.kind, decision.by], ['allow', { stage: 'autonomy' }]);
  });

  it('holds a call to its budget though a policy allows it', () => {
    const governance = governanceOf([{ when: 'true', decision: 'allow' }]);
    const decision = gate(
      callWithEveryFault({ ...permitted(['pay'], 3), governance, usedUp: { ...SPENT, name: 'May' } }),
    );
    assert.deepEqual([decision.kind, decision.by.stage], ['deny', 'budget']);
    assert.equal(decision.message, 'The budget "May" is used up; the call was not made.');
  });

  it('names the tools that there are to a model that asks for another', () => {
    const decision = gate(callWithEveryFault({ ...known, name: 'spend' }));
    assert.equal(decision.kind === 'invalid' && decision.message, 'Unknown tool "spend". Available: pay.');
  });

  it('lets every tool pass where the rails say "all"', () => {
    const definition = { name: 'a', guardrail_config: { tool_rails: { allowed_tools: 'all' as const } } };
    const tool = { ...PAY, permissions: [] };
    const tools = new Map([['pay', tool]]);
    const call = callWithEveryFault({ ...valid, definition, tools, autonomyLevel: 3, usedUp: undefined });
    assert.equal(gate(call).kind, 'allow');
  });

  /** Which risks run without a person, at levels 0 to 3. */
  const MATRIX: Record<RiskLevel, [boolean, boolean, boolean, boolean]> = {
    READ_ONLY: [false, true, true, true],
    WRITE_LOW_RISK: [false, false, true, true],
    WRITE_HIGH_RISK: [false, false, false, true],
  };
  for (const risk of RISK_LEVELS) {
    MATRIX[risk].forEach((runsAlone, level) => {
      it(`${runsAlone ? 'lets a' : 'asks a person about a'} ${risk} call at autonomy level ${level}`, () => {
        const tool = { ...PAY, permissions: [], risk_level: risk };
        const tools = new Map([['pay', tool]]);
        const call = { ...valid, definition: { name: 'a' }, tools, autonomyLevel: level, usedUp: undefined };
        const decision = gate(callWithEveryFault(call));
        assert.equal(decision.kind, runsAlone ? 'allow' : 'ask');
      });
    });
  }
});
