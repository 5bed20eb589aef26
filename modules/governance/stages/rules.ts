import { effectOf } from '../../../core/tool.ts';
import type { GatedCall, StageVerdict } from './stage.ts';
import { judgeByRules, matchRules, type RuleInput } from '../rules.ts';

/** Applies the tenant's policies: any matching `block` wins, else the first match by priority. */
export function judgeRules(call: GatedCall): StageVerdict | undefined {
  const { rules } = call.governance;
  if (rules.length === 0) return undefined;
  const verdict = judgeByRules(matchRules(rules, ruleInput(call)), call.arguments, call.rewritten !== undefined);
  if (!verdict) return undefined;
  const { rule, message } = verdict;
  const policy = { id: rule.id, name: rule.name, version: rule.version };
  switch (verdict.kind) {
    case 'block':
      return { kind: 'deny', code: 'blocked_by_policy', message: `Blocked by a policy: ${message}`, policy };
    case 'ask': {
      const fourEyes = rule.definition.four_eyes ?? false;
      return { kind: 'ask', code: 'needs_approval', message, policy, fourEyes };
    }
    case 'allow':
      return { kind: 'allow', message, policy };
    case 'rewrite':
      return { kind: 'rewrite', message, policy, arguments: verdict.arguments };
  }
}

/** The variables of a rule's `when` for a call. */
export function ruleInput({ tool, agent, run, governance, ...call }: GatedCall): RuleInput {
  return {
    tool: {
      id: tool.id,
      name: tool.name,
      version: tool.version,
      transport: tool.transport.type,
      effect: effectOf(tool),
      risk_level: tool.risk_level,
      annotations: { ...tool.annotations },
      permissions: tool.permissions.map(({ name }) => name),
    },
    arguments: call.arguments,
    agent,
    run: { ...run, autonomy_level: call.autonomyLevel, calls_in_turn: call.callsInTurn },
    tenant: { ...governance.tenant },
    user: { id: call.userId },
    risk: tool.risk_level,
    tainted_by: [...(call.taintedBy ?? [])],
  };
}
