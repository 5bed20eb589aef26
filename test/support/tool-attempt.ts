import { newId } from '../../lib/new-id.ts';
import { LIMITS } from '../../core/limits.ts';
import type { ToolAttempt, ToolDefinition, ToolOutcome, ToolTransport } from '../../core/tool.ts';

/** One attempt with fresh ids; `more` changes what matters to a test. */
export function attemptOf<A extends object>(args: A, more: Partial<ToolAttempt<A>> = {}): ToolAttempt<A> {
  return {
    tenantId: 'tenant-1',
    runId: 'run-1',
    toolCallId: 'call-1',
    idempotencyKey: `key-${newId()}`,
    attempt: 1,
    arguments: args,
    timeoutMs: 20_000,
    signal: new AbortController().signal,
    ...more,
  };
}

/** A registered tool that takes anything. */
export function toolOf(transport: ToolTransport, name = 'tool'): ToolDefinition {
  return {
    id: newId(),
    name,
    version: '1.0.0',
    description: 'A tool of a test.',
    input_schema: { type: 'object' },
    transport,
    execution: {
      timeout_ms: LIMITS.toolTimeoutMs,
      retry_config: { max_retries: LIMITS.toolRetries, backoff_ms: LIMITS.toolBackoffMs },
      inline: false,
    },
    permissions: [],
    risk_level: 'WRITE_LOW_RISK',
    annotations: {},
  };
}

/** The output of an attempt that must have succeeded. */
export function outputOf(outcome: ToolOutcome): unknown {
  if (outcome.kind !== 'succeeded') throw new Error(`${outcome.kind} ${outcome.code}: ${outcome.message}`);
  return outcome.output;
}

/** Kind and code of an outcome, such as `lost timeout`. */
export function briefly(outcome: ToolOutcome): string {
  return outcome.kind === 'succeeded' ? 'succeeded' : `${outcome.kind} ${outcome.code}`;
}

/** The message of an outcome that must not have succeeded. */
export function messageOf(outcome: ToolOutcome): string {
  if (outcome.kind === 'succeeded') throw new Error('it succeeded');
  return outcome.message;
}
