/** Calls that a model is still writing: what of them may be shown before the gate can judge their arguments. */
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
  /** Calls of the turn before this one. */
  callsInTurn: number;
}

/**
 * Whether a call may be shown while it is written: not where a rule may rewrite arguments, since the log would not have
 * what was shown, nor where it is known already that the call will be refused. Which calls a rule is about is known
 * from their arguments alone.
 */
export function mayShowUnjudged(call: UnjudgedCall): boolean {
  const { rules } = call.governance;
  if (rules.some(({ definition }) => definition.decision === 'rewrite')) return false;
  return !judgeBinding(call) && !judgePermissions(call) && !judgeRails(call);
}
