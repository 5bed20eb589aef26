/**
 * What stands between a model's wish and a tool: one function, one order. Binding, arguments, permissions, tool rails,
 * autonomy. A call that does not pass is an observation for the model, with its reason.
 */
import type { AgentDefinition } from '../core/definition.ts';
import type { FieldError } from '../core/errors.ts';
import { ASK_USER_TOOL, type RiskLevel, type ToolDefinition } from '../core/tool.ts';

export interface GateInput {
  /** The agent's definition and the autonomy level of the run. */
  definition: AgentDefinition;
  autonomyLevel: number;
  tools: ReadonlyMap<string, ToolDefinition>;
  name: string;
  arguments: Record<string, unknown>;
  /** Calls of this turn before this one. */
  callsInTurn: number;
  validate: (schema: Record<string, unknown>, args: Record<string, unknown>) => FieldError[];
}

export type GateDecision =
  | { kind: 'allow'; tool: ToolDefinition }
  /** A person must approve exactly these arguments first. */
  | { kind: 'ask'; tool: ToolDefinition; code: string; message: string }
  | { kind: 'invalid'; tool: ToolDefinition | undefined; code: string; message: string }
  | { kind: 'deny'; tool: ToolDefinition; code: string; message: string };

/** Decides on one call. Pure. */
export function gate(input: GateInput): GateDecision {
  const tool = input.tools.get(input.name);
  if (!tool) {
    const known = [...input.tools.keys()].join(', ') || 'none';
    return {
      kind: 'invalid',
      tool,
      code: 'unknown_tool',
      message: `Unknown tool "${input.name}". Available: ${known}.`,
    };
  }
  const faults = input.validate(tool.input_schema, input.arguments);
  if (faults.length > 0) {
    const message = `Invalid arguments: ${faults.map((fault) => `${fault.path || '/'}: ${fault.message}`).join('; ')}.`;
    return { kind: 'invalid', tool, code: 'invalid_arguments', message };
  }
  const reason = missingPermission(input, tool) ?? outsideRails(input, tool);
  if (reason) return { kind: 'deny', tool, ...reason };
  const question = beyondAutonomy(input, tool);
  return question ? { kind: 'ask', tool, ...question } : { kind: 'allow', tool };
}

type Reason = { code: string; message: string } | undefined;

function missingPermission(input: GateInput, tool: ToolDefinition): Reason {
  const granted = new Set(input.definition.permissions ?? []);
  const missing = tool.permissions.find((permission) => permission.required && !granted.has(permission.name));
  return missing && { code: 'permission_denied', message: `Permission denied: the agent lacks "${missing.name}".` };
}

function outsideRails(input: GateInput, tool: ToolDefinition): Reason {
  const rails = input.definition.guardrail_config?.tool_rails;
  const allowed = rails?.allowed_tools;
  if (Array.isArray(allowed) && !allowed.includes(tool.name)) {
    return { code: 'tool_not_allowed', message: `Permission denied: the agent's rails do not allow "${tool.name}".` };
  }
  const most = rails?.max_calls_per_turn;
  if (most !== undefined && input.callsInTurn >= most) {
    return { code: 'too_many_calls', message: `Permission denied: the turn has used up its ${most} tool calls.` };
  }
  return undefined;
}

/** Highest risk that runs without a person, by autonomy level (doc 001, the L0-L3 matrix for single calls). */
const RUNS_ALONE: readonly (readonly RiskLevel[])[] = [
  [],
  ['READ_ONLY'],
  ['READ_ONLY', 'WRITE_LOW_RISK'],
  ['READ_ONLY', 'WRITE_LOW_RISK', 'WRITE_HIGH_RISK'],
];

function beyondAutonomy(input: GateInput, tool: ToolDefinition): Reason {
  // Asking a person needs no person's leave.
  if (tool.transport.type === 'builtin' && tool.name === ASK_USER_TOOL) return undefined;
  if (RUNS_ALONE[input.autonomyLevel]?.includes(tool.risk_level)) return undefined;
  return {
    code: 'needs_approval',
    message: `A ${tool.risk_level} call needs a person's approval at autonomy level ${input.autonomyLevel}.`,
  };
}
