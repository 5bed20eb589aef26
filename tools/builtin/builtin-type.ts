import type { ToolDefinition, ToolOutcome } from '../../core/tool.ts';
import type { Egress } from '../egress.ts';
import type { ArgumentValidator } from '../validate-arguments.ts';

/** What differs from one built-in to the next; the rest is the same for all (`BUILTIN_TOOLS`). */
export type Builtin = Required<
  Pick<ToolDefinition, 'name' | 'display_name' | 'description' | 'input_schema' | 'output_schema'>
>;

export interface BuiltinRuntime {
  egress: Egress;
  validator: ArgumentValidator;
  /** The current time; the system's clock where absent. */
  now?: (() => Date) | undefined;
}

/** A failure that the model can read and mend. */
export function toolError(code: string, message: string): ToolOutcome {
  return { kind: 'error', code, message };
}
