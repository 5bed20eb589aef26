import type { Urgency } from '../../core/handoff.ts';
import type { MemoryType } from '../../core/memory/entry.ts';
import type { ToolAttempt, ToolDefinition, ToolOutcome } from '../../core/tool.ts';
import type { Egress } from '../egress.ts';
import type { ArgumentValidator } from '../validate-arguments.ts';

/** The fields that differ between built-ins; `BUILTIN_TOOLS` has the rest. Each says whether it `READS` or `WRITES`. */
export type Builtin = Required<
  Pick<
    ToolDefinition,
    'name' | 'display_name' | 'description' | 'input_schema' | 'output_schema' | 'risk_level' | 'annotations'
  >
>;

type Effect = Pick<Builtin, 'risk_level' | 'annotations'>;

/** Changes nothing. */
export const READS: Effect = {
  risk_level: 'READ_ONLY',
  annotations: { readOnlyHint: true, idempotentHint: true, destructiveHint: false },
};

/** Changes Drover's own data, once per call. */
export const WRITES: Effect = {
  risk_level: 'WRITE_LOW_RISK',
  annotations: { readOnlyHint: false, idempotentHint: true, destructiveHint: false },
};

/**
 * Makes one attempt of a built-in tool; arguments have been checked against its schema. Typed as a method, so that
 * tools with different arguments fit in one list.
 */
export type BuiltinFunction<A extends object = Record<string, unknown>> = {
  run(attempt: ToolAttempt<A>, runtime: BuiltinRuntime): Promise<ToolOutcome>;
}['run'];

/** Implements the tools of `domain-tools.ts`. */
export type DomainFunctions = { readonly [Name in keyof DomainArguments]: BuiltinFunction<DomainArguments[Name]> };

/** The arguments of those tools, as validated by their schemas. */
export interface DomainArguments {
  read_tool_output: { tool_use_id: string; offset?: number; limit?: number };
  read_resource: { tool_use_id: string; uri: string };
  remember: { content: string; memory_type?: MemoryType; subject?: string };
  recall: { query: string; top_k?: number };
  handoff: {
    to_agent?: string;
    capabilities?: string[];
    reason: string;
    expected_action?: string;
    urgency?: Urgency;
    key_findings?: string[];
    decisions?: string[];
    uncertainties?: string[];
    recommendations?: string[];
    progress?: string;
  };
  reject_handoff: { reason: string };
}

export interface BuiltinRuntime {
  egress: Egress;
  validator: ArgumentValidator;
  /** Implementations of the domain's built-in tools; absent without a domain. */
  builtins?: DomainFunctions | undefined;
  /** The current time; by default the system's clock. */
  now?: (() => Date) | undefined;
}

/** A failure that the model can read and correct. */
export function toolError(code: string, message: string): ToolOutcome {
  return { kind: 'error', code, message };
}
