/**
 * Attributes of spans, by OpenTelemetry's conventions for generative AI (semantic-conventions-genai 0.1.0), which have no stable
 * version yet: so their names are here, and in no package. Ids, numbers and outcomes only, no content.
 */
import type { NewEvent } from '../events.ts';
import { promptTokens, type TokenUsage } from '../model.ts';

export type SpanAttributes = Record<string, string | number | boolean | string[] | undefined>;

/** A run, as its spans describe it. */
export interface TracedRun {
  id: string;
  tenant_id: string;
  agent_id: string;
  agent_version: string;
  /** Null if the agent is gone. */
  agent_name: string | null;
  thread_id: string;
  kind: 'agent' | 'workflow';
  root_run_id: string;
  traceparent: string | null;
  parent_run_id: string | null;
  parent_task_id: string | null;
  /** What its parent is, and the parent's first turn. */
  parent_kind: 'agent' | 'workflow' | null;
  parent_turn_id: string | null;
}

/** What all spans of a turn have. */
export function attributesOfRun(run: TracedRun, turnId: string): SpanAttributes {
  return {
    'gen_ai.conversation.id': run.thread_id,
    'gen_ai.agent.id': run.agent_id,
    'gen_ai.agent.name': run.agent_name ?? undefined,
    'drover.tenant.id': run.tenant_id,
    'drover.run.id': run.id,
    'drover.turn.id': turnId,
  };
}

/** Of the span of a turn; `spent`: by its model calls together. */
export function attributesOfTurn(
  run: TracedRun,
  { number, spent }: { number: number; spent: TokenUsage | undefined },
): SpanAttributes {
  return {
    'gen_ai.operation.name': operationOf(run),
    'gen_ai.agent.version': run.agent_version,
    'drover.turn.number': number,
    'drover.parent_run.id': run.parent_run_id ?? undefined,
    ...(spent && attributesOfUsage(spent)),
  };
}

export function operationOf({ kind }: Pick<TracedRun, 'kind'>): 'invoke_agent' | 'invoke_workflow' {
  return kind === 'workflow' ? 'invoke_workflow' : 'invoke_agent';
}

type Responded = Extract<NewEvent, { type: 'model.responded' }>;
type ModelFailed = Extract<NewEvent, { type: 'model.failed' }>;

/** A model that is asked. The provider is unknown where the log only names a fallback. */
export interface AskedModel {
  provider?: string | undefined;
  model: string;
  maxTokens?: number | undefined;
}

/** Of the span of a model call. */
export function attributesOfModelCall(
  { type, step, payload }: Responded | ModelFailed,
  asked: AskedModel | undefined,
): SpanAttributes {
  const { usage, cost_usd: cost } = payload;
  return {
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': payload.provider ?? asked?.provider,
    'gen_ai.request.model': asked?.model ?? payload.model,
    'gen_ai.request.max_tokens': asked?.maxTokens,
    ...(type === 'model.responded' && {
      'gen_ai.response.model': payload.model,
      'gen_ai.response.finish_reasons': [payload.stop_reason],
    }),
    ...(usage && attributesOfUsage(usage)),
    'drover.step': step,
    'drover.cost_usd': cost == null ? undefined : Number(cost),
    'drover.forced_tool': payload.tool,
  };
}

/** All of the prompt counts as input, and thinking as output; what there is none of is left out, apart from these two. */
export function attributesOfUsage(usage: TokenUsage): SpanAttributes {
  const written = usage.cache_write_5m + usage.cache_write_1h;
  return {
    'gen_ai.usage.input_tokens': promptTokens(usage),
    'gen_ai.usage.output_tokens': usage.output,
    'gen_ai.usage.reasoning.output_tokens': usage.thinking || undefined,
    'gen_ai.usage.cache_read.input_tokens': usage.cache_read || undefined,
    'gen_ai.usage.cache_write.input_tokens': written || undefined,
  };
}

/** Of the span of a tool call. `name`: null if there is no such tool; `toolUseId`: the model's id of it. */
export function attributesOfCall(call: {
  id: string;
  name: string | null;
  toolUseId: string;
  attempt: number | undefined;
}): SpanAttributes {
  return {
    'gen_ai.operation.name': 'execute_tool',
    'gen_ai.tool.name': call.name ?? undefined,
    'gen_ai.tool.type': 'function',
    'gen_ai.tool.call.id': call.toolUseId,
    'drover.tool_call.id': call.id,
    'drover.tool_call.attempt': call.attempt,
  };
}
