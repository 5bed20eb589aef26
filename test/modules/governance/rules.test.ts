import assert from 'node:assert/strict';
import fc from 'fast-check';
import { mergePatch, RULE_DECISIONS, type PolicyDefinition } from '../../../core/policy.ts';
import { compileWhen } from '../../../modules/governance/rules.ts';
import { gate, type GateDecision } from '../../../modules/governance/gate.ts';
import type { GateInput } from '../../../modules/governance/stages/stage.ts';
import { createArgumentValidator } from '../../../tools/validate-arguments.ts';
import { governanceOf } from '../../support/governance.ts';
import { toolOf } from '../../support/tool-attempt.ts';

const { validateArguments } = createArgumentValidator();

const PAY = {
  ...toolOf({ type: 'http', endpoint: 'https://bank.example/pay' }, 'pay'),
  input_schema: { type: 'object', properties: { amount: { type: 'number', maximum: 1000 }, note: { type: 'string' } } },
  risk_level: 'WRITE_HIGH_RISK' as const,
};

type Rules = Parameters<typeof governanceOf>[0];

function decide(rules: Rules, more: Partial<GateInput> = {}): GateDecision {
  return gate({
    governance: governanceOf(rules),
    definition: { name: 'clerk', tags: ['finance'] },
    autonomyLevel: 3,
    userId: '',
    tools: new Map([['pay', PAY]]),
    agent: { id: 'agent-1', name: 'clerk', tags: ['finance'] },
    run: { id: 'run-1' },
    name: 'pay',
    arguments: { amount: 500 },
    callsInTurn: 0,
    usedUp: undefined,
    validate: validateArguments,
    ...more,
  });
}

const policyOf = (decision: GateDecision) => decision.by.policy?.name;

describe('Policy rules', () => {
  it('leave a call that none matches to the autonomy matrix', () => {
    const rules: Rules = [{ when: 'tool == "refund"', decision: 'block' }];
    assert.equal(decide(rules).kind, 'allow');
    assert.deepEqual([decide(rules, { autonomyLevel: 2 }).kind, decide(rules).by.stage], ['ask', 'autonomy']);
  });

  it('see the tool, its arguments, the agent, the run, the tenant and the risk', () => {
    const when =
      'tool.transport == "http" && arguments.amount == 500 && "finance" in agent.tags && run.id == "run-1" && ' +
      'run.autonomy_level == 3 && tenant.plan_tier == "standard" && risk == "WRITE_HIGH_RISK"';
    assert.equal(decide([{ when, decision: 'block' }]).kind, 'deny');
  });

  describe('on risks', () => {
    const RISKS = ['READ_ONLY', 'WRITE_LOW_RISK', 'WRITE_HIGH_RISK'] as const;
    const COMPARE: Record<string, (left: number, right: number) => boolean> = {
      '==': (left, right) => left === right,
      '!=': (left, right) => left !== right,
      '<': (left, right) => left < right,
      '<=': (left, right) => left <= right,
      '>': (left, right) => left > right,
      '>=': (left, right) => left >= right,
    };
    const blocks = (when: string, risk: (typeof RISKS)[number]) => {
      const tools = new Map([['pay', { ...PAY, risk_level: risk }]]);
      return decide([{ when, decision: 'block' }], { tools }).kind === 'deny';
    };

    it('compare them by what they are, not by the alphabet, on either side and in any case', () => {
      const texts = RISKS.flatMap((literal, right) =>
        [literal, literal.toLowerCase()].map((text) => ({ text, right })),
      );
      const places = RISKS.flatMap((risk, left) => texts.map((each) => ({ risk, left, ...each })));
      for (const [sign, compare] of Object.entries(COMPARE)) {
        for (const { risk, left, text, right } of places) {
          for (const path of ['risk', 'tool.risk_level', 'tool["risk_level"]']) {
            const [usual, turned] = [`${path} ${sign} "${text}"`, `"${text}" ${sign} ${path}`];
            assert.equal(blocks(usual, risk), compare(left, right), `${usual} of ${risk}`);
            assert.equal(blocks(turned, risk), compare(right, left), `${turned} of ${risk}`);
          }
        }
      }
      assert.ok(blocks('risk in ["read_only", "write_high_risk"]', 'WRITE_HIGH_RISK'));
      assert.ok(!blocks('risk in ["read_only", "write_high_risk"]', 'WRITE_LOW_RISK'));
      assert.ok(blocks('risk >= tool.risk_level && risk.startsWith("WRITE")', 'WRITE_LOW_RISK'));
    });

    it('are refused with a text that is none, or with an order of something else', () => {
      const refused = { 'risk == "HIGH"': /"HIGH" is none of READ_ONLY, /, 'risk in ["LOW"]': /"LOW" is none of/ };
      for (const [when, error] of Object.entries({
        ...refused,
        'risk > arguments.note': /risk is ordered against one/,
      })) {
        const compiled = compileWhen(when);
        assert.match(compiled.ok ? '' : compiled.error, error);
      }
      assert.ok(compileWhen('risk == arguments.note').ok);
    });

    it('equal none where an earlier build has stored such a text', () => {
      assert.ok(!blocks('risk == "HIGH" || risk in ["high"]', 'WRITE_HIGH_RISK'));
      assert.ok(blocks('risk != "HIGH"', 'WRITE_HIGH_RISK'));
    });
  });

  it('block where any of them blocks, whatever comes before it', () => {
    const decision = decide([
      { when: 'true', decision: 'allow' },
      { when: 'arguments.amount > 100', decision: 'block', name: 'limit', reason: 'more than 100' },
    ]);
    assert.equal(decision.kind === 'deny' && decision.code, 'blocked_by_policy');
    assert.equal(decision.message, 'Blocked by a policy: more than 100');
    assert.equal(policyOf(decision), 'limit');
  });

  it('go by the lowest priority number first, and by name where it is the same', () => {
    const rules: Rules = [
      { when: 'true', decision: 'allow', name: 'c', priority: 5 },
      { when: 'true', decision: 'require_approval', name: 'b', priority: 5 },
      { when: 'true', decision: 'allow', name: 'a', priority: 50 },
    ];
    assert.equal(policyOf(decide(rules)), 'b');
    assert.equal(policyOf(decide(rules.toReversed())), 'b');
    assert.equal(policyOf(decide([...rules, { when: 'true', decision: 'allow', name: 'z', priority: -1 }])), 'z');
  });

  it('skip the matrix where one allows, and not what stands before the rules', () => {
    const rules: Rules = [{ when: 'true', decision: 'allow' }];
    assert.deepEqual([decide(rules, { autonomyLevel: 0 }).kind, policyOf(decide(rules))], ['allow', 'rule 0']);
    const railed = { name: 'clerk', guardrail_config: { tool_rails: { allowed_tools: ['other'] } } };
    assert.equal(decide(rules, { definition: railed }).kind, 'deny');
    assert.equal(decide(rules, { arguments: { amount: 'much' } }).kind, 'invalid');
    assert.equal(decide(rules, { governance: governanceOf(rules, { deletedTools: [PAY.id] }) }).by.stage, 'binding');
  });

  it('ask a person where one says so, another one than who asked where it says that', () => {
    const rules: Rules = [{ when: 'true', decision: 'require_approval', four_eyes: true, reason: 'money' }];
    const decision = decide(rules);
    assert.deepEqual(
      [decision.kind, decision.kind === 'ask' && decision.fourEyes, decision.message],
      ['ask', true, 'money'],
    );
  });

  describe('that rewrite', () => {
    const cap = (amount: number | string | null, when = 'arguments.amount > 100'): Rules[number] => {
      return { when, decision: 'rewrite', rewrite: { arguments: { amount } }, name: 'cap' };
    };

    it('change the arguments that they name, and the call passes the gate again with them', () => {
      const decision = decide([
        cap(100),
        { when: 'arguments.amount == 100', decision: 'require_approval', name: 'next' },
      ]);
      assert.deepEqual([decision.kind, decision.arguments], ['ask', { amount: 100 }]);
      assert.deepEqual([decision.rewritten?.policy.name, policyOf(decision)], ['cap', 'next']);
    });

    it('take an argument away with null, and keep those that they do not name', () => {
      const decision = decide([cap(null, 'has(arguments.amount)')], { arguments: { amount: 1, note: 'x' } });
      assert.deepEqual([decision.kind, decision.arguments], ['allow', { note: 'x' }]);
    });

    it('do not get past the schema', () => {
      const decision = decide([cap(5000)]);
      assert.equal(decision.kind, 'invalid');
      assert.match(decision.message, /^The policy "cap" rewrote the arguments: Invalid arguments/);
    });

    it('do so once: one that would change them again blocks, one that would not is passed over', () => {
      assert.equal(decide([cap(100, 'true')]).kind, 'allow');
      const other: Rules[number] = { when: 'true', decision: 'rewrite', rewrite: { arguments: { note: 'n' } } };
      assert.equal(decide([cap(100, 'true'), other]).kind, 'deny');
    });
  });

  it('fail closed where they cannot be evaluated', () => {
    const failing = (decision: PolicyDefinition['decision']): Rules => [
      { when: 'arguments.missing > 1', decision, ...(decision === 'rewrite' && { rewrite: { arguments: {} } }) },
    ];
    assert.equal(decide(failing('block')).kind, 'deny');
    assert.equal(decide(failing('rewrite')).kind, 'deny');
    assert.equal(decide(failing('require_approval')).kind, 'ask');
    // An error allows nothing: the matrix decides.
    assert.equal(decide(failing('allow'), { autonomyLevel: 0 }).kind, 'ask');
    assert.match(decide(failing('block')).message, /could not be evaluated: No such key: missing/);
    assert.equal(decide([{ when: 'an older build took this', decision: 'block' }]).kind, 'deny');
  });

  it('decide by the law of the table, whatever rules there are', () => {
    const rule = fc.record({
      decision: fc.constantFrom(...RULE_DECISIONS.filter((decision) => decision !== 'rewrite')),
      when: fc.constantFrom('true', 'false', 'arguments.missing == 1'),
      priority: fc.integer({ min: 0, max: 3 }),
    });
    fc.assert(
      fc.property(fc.array(rule, { maxLength: 6 }), fc.integer({ min: 0, max: 3 }), (drawn, autonomyLevel) => {
        const rules = drawn.map((each, index) => ({ ...each, name: `r${index}` }));
        const speaks = rules.filter(
          ({ when, decision }) => when === 'true' || (when !== 'false' && decision !== 'allow'),
        );
        const first = speaks.toSorted((a, b) => a.priority - b.priority || (a.name < b.name ? -1 : 1))[0];
        const decided = speaks.some(({ decision }) => decision === 'block') ? 'block' : first?.decision;
        const expected = { block: 'deny', require_approval: 'ask', allow: 'allow' } as const;
        const matrix = autonomyLevel === 3 ? 'allow' : 'ask';
        const { kind } = decide(rules, { autonomyLevel });
        assert.equal(kind, decided ? expected[decided] : matrix);
      }),
    );
  });
});

describe('A merge patch on arguments', () => {
  it('is the one of RFC 7396', () => {
    assert.deepEqual(mergePatch({ a: 1, b: { c: 2, d: 3 } }, { a: null, b: { c: 9 }, e: [1] }), {
      b: { c: 9, d: 3 },
      e: [1],
    });
  });

  it('pollutes nothing', () => {
    const patch = JSON.parse('{"__proto__": {"polluted": true}}') as unknown;
    mergePatch({}, patch);
    assert.equal(({} as Record<string, unknown>)['polluted'], undefined);
  });

  it('applied twice is applied once', () => {
    const object = fc.dictionary(fc.string(), fc.jsonValue());
    fc.assert(
      fc.property(object, object, (target, patch) => {
        const once = mergePatch(target, patch);
        assert.deepEqual(mergePatch(once, patch), once);
      }),
    );
  });
});
