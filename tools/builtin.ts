/** Drover's built-in tools. */
import { fixedId } from '../core/ids.ts';
import { LIMITS } from '../core/limits.ts';
import type { ToolAttempt, ToolDefinition, ToolOutcome } from '../core/tool.ts';
import { ASK_USER, askNobody } from './builtin/ask-user.ts';
import { calculate, CALCULATOR } from './builtin/calculator.ts';
import { CURRENT_TIME, tellTime } from './builtin/current-time.ts';
import { DELEGATE } from './builtin/delegate.ts';
import { HTTP_GET, httpGet } from './builtin/http-get.ts';
import { JSON_QUERY, queryJson } from './builtin/json-query.ts';
import { SLEEP, WAIT_FOR_WEBHOOK, waitForNothing } from './builtin/wait-tools.ts';
import { DOMAIN_TOOLS } from './builtin/domain-tools.ts';
import type { Builtin, BuiltinFunction, BuiltinRuntime } from './builtin/builtin-type.ts';

const BUILTINS: readonly { tool: Builtin; run: BuiltinFunction }[] = [
  { tool: ASK_USER, run: askNobody },
  { tool: CALCULATOR, run: calculate },
  { tool: CURRENT_TIME, run: tellTime },
  { tool: DELEGATE, run: waitForNothing },
  { tool: HTTP_GET, run: httpGet },
  { tool: JSON_QUERY, run: queryJson },
  { tool: SLEEP, run: waitForNothing },
  { tool: WAIT_FOR_WEBHOOK, run: waitForNothing },
];

/** Built-in tools as registered, the same for every tenant. */
export const BUILTIN_TOOLS: readonly ToolDefinition[] = [...BUILTINS.map(({ tool }) => tool), ...DOMAIN_TOOLS].map(
  (tool) => ({
    id: fixedId(`builtin:${tool.name}`),
    version: '1.0.0',
    transport: { type: 'builtin' },
    execution: {
      timeout_ms: LIMITS.toolTimeoutMs,
      retry_config: { max_retries: LIMITS.toolRetries, backoff_ms: LIMITS.toolBackoffMs },
      inline: false,
    },
    permissions: [],
    ...tool,
  }),
);

/** Makes one attempt of a built-in tool; an unknown name or bad arguments are errors that the model sees. */
export async function runBuiltin(name: string, attempt: ToolAttempt, runtime: BuiltinRuntime): Promise<ToolOutcome> {
  const tool = BUILTIN_TOOLS.find((builtin) => builtin.name === name);
  const run = BUILTINS.find((builtin) => builtin.tool.name === name)?.run ?? domainFunction(name, runtime);
  if (!tool || !run)
    return { kind: 'error', origin: 'drover', code: 'unknown-tool', message: `There is no built-in tool "${name}".` };
  const faults = runtime.validator.validateArguments(tool.input_schema, attempt.arguments);
  if (faults.length > 0) {
    return { kind: 'error', code: 'invalid-arguments', message: faults.map((fault) => fault.message).join('; ') };
  }
  return run(attempt, runtime);
}

function domainFunction(name: string, { builtins }: BuiltinRuntime): BuiltinFunction | undefined {
  const functions: Partial<Record<string, BuiltinFunction>> = builtins ?? {};
  return Object.hasOwn(functions, name) ? functions[name] : undefined;
}
