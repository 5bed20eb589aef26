/** Decides which calls may be shown while a model writes them, before the gate can judge their arguments. */
import type { AgentDefinition } from '../../core/definition.ts';
import type { ToolDefinition } from '../../core/tool.ts';
import type { Governance } from './governance.ts';
import { judgeBinding } from './stages/binding.ts';
import { judgePermissions } from './stages/permissions.ts';
import { judgeRails } from './stages/rails.ts';

interface UnjudgedCall {
  governance: Governance;
  definition: AgentDefinition;
  tool: ToolDefinition;
  /** Calls made earlier in this turn. */
  callsInTurn: number;
}

/**
 * Whether a call may be shown while it is written: not if a rule may rewrite arguments, since the log would differ, nor
 * if it is sure to be refused. Only arguments tell which calls a rule matches.
 */
export function mayShowUnjudged(call: UnjudgedCall): boolean {
  const { rules } = call.governance;
  if (rules.some(({ definition }) => definition.decision === 'rewrite')) return false;
  return !judgeBinding(call) && !judgePermissions(call) && !judgeRails(call);
}
