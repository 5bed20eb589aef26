import type { GatedCall, StageVerdict } from './stage.ts';

/** Applies the agent's tool rails: allowed tools, and calls per turn. */
export function judgeRails({
  definition,
  tool,
  callsInTurn,
  isRequested = false,
}: Pick<GatedCall, 'definition' | 'tool' | 'callsInTurn' | 'isRequested'>): StageVerdict | undefined {
  const rails = definition.guardrail_config?.tool_rails;
  const allowed = rails?.allowed_tools;
  if (Array.isArray(allowed) && !allowed.includes(tool.name)) {
    const message = `Permission denied: the agent's rails do not allow "${tool.name}".`;
    return { kind: 'deny', code: 'tool_not_allowed', message };
  }
  const most = rails?.max_calls_per_turn;
  if (most !== undefined && !isRequested && callsInTurn >= most) {
    const message = `Permission denied: the turn has used up its ${most} tool calls.`;
    return { kind: 'deny', code: 'too_many_calls', message };
  }
  return undefined;
}
