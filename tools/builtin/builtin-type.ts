import type { ToolAttempt, ToolDefinition, ToolOutcome } from '../../core/tool.ts';
import type { Egress } from '../egress.ts';
import type { ArgumentValidator } from '../validate-arguments.ts';

/** What differs from one built-in to the next; the rest is as `BUILTIN_TOOLS` has it: read-only, where nothing else is said. */
export type Builtin = Required<
  Pick<ToolDefinition, 'name' | 'display_name' | 'description' | 'input_schema' | 'output_schema'>
> &
  Partial<Pick<ToolDefinition, 'risk_level' | 'annotations'>>;

/** One attempt of a built-in tool, with arguments that fit its schema. */
export type BuiltinFunction = (attempt: ToolAttempt, runtime: BuiltinRuntime) => Promise<ToolOutcome>;

/** What the tools of `domain-tools.ts` do. */
export type DomainFunctions = Readonly<
  Record<'read_tool_output' | 'read_resource' | 'remember' | 'recall' | 'handoff' | 'reject_handoff', BuiltinFunction>
>;

export interface BuiltinRuntime {
  egress: Egress;
  validator: ArgumentValidator;
  /** What the built-in tools of the domain do; absent where there is no domain. */
  builtins?: DomainFunctions | undefined;
  /** The current time; the system's clock where absent. */
  now?: (() => Date) | undefined;
}

/** A failure that the model can read and mend. */
export function toolError(code: string, message: string): ToolOutcome {
  return { kind: 'error', code, message };
}
