/** What a resumed thread continues from, in the API's form. */
import { z } from 'zod';
import { memorySettings } from '../../core/definition.ts';
import { LIMITS } from '../../core/limits.ts';
import type { Resumption } from '../../modules/conversations/resumption.ts';
import type { ThreadView } from '../../modules/conversations/threads.ts';
import { presentThread, thread } from './schemas.ts';

const tokens = z.number().nullable();

const resumption = z
  .object({
    agent_version: z.string(),
    system_prompt: z.unknown().describe('As the version of the agent has it; null where it has none.'),
    messages: z
      .array(z.unknown())
      .optional()
      .describe('The conversation as it is compacted now: what the next call sends of it. Asked for by `messages`.'),
    model: z.string().nullable(),
    max_steps: z.number(),
    max_tokens: z.number(),
    thinking_tokens: z.number(),
    container_id: z.string().nullable(),
    tool_names: z.array(z.string()),
    tool_schemas: z.array(
      z.object({ name: z.string(), description: z.string(), input_schema: z.record(z.string(), z.unknown()) }),
    ),
    server_tools: z.array(z.record(z.string(), z.unknown())),
    beta_headers: z.array(z.string()),
    api_kwargs: z.record(z.string(), z.unknown()),
    compactor_type: z.string(),
    memory_store_type: z.enum(['drover', 'none']),
    max_retries: z.number(),
    base_delay: z.number(),
    last_known_input_tokens: tokens,
    last_known_output_tokens: tokens,
    current_step: z.number().describe('Of the newest run.'),
    awaiting_frontend_tools: z.boolean(),
    pending_frontend_tools: z
      .array(z.object({ tool_use_id: z.string(), name: z.string(), input: z.record(z.string(), z.unknown()) }))
      .describe('Calls that the client is to execute before it goes on.'),
    pending_backend_results: z
      .array(z.unknown())
      .describe('Results of other calls of that answer, which the model reads together with those of the client.'),
  })
  .meta({ id: 'ThreadResumption' });

/** A single thread. */
export const threadDetail = thread.extend({ resumption: resumption.nullable() }).meta({ id: 'ThreadDetail' });

export function presentThreadDetail(row: ThreadView, of: Resumption | undefined): z.input<typeof threadDetail> {
  return { ...presentThread(row), resumption: of ? presentResumption(of) : null };
}

function presentResumption({ run, definition, carried, lastUsage, ...more }: Resumption): z.input<typeof resumption> {
  const settings = { ...definition.model_preferences, ...definition.llm_config };
  const { limits } = run.pinned;
  const pending = more.awaited.map(({ tool_use_id, name, arguments: input }) => ({ tool_use_id, name, input }));
  const { input, cache_read = 0, cache_write_5m = 0, cache_write_1h = 0, output = null } = lastUsage ?? {};
  return {
    agent_version: run.agent_version,
    system_prompt: definition.system_prompt ?? null,
    ...(more.messages && { messages: more.messages }),
    model: limits?.model ?? null,
    max_steps: run.config.max_turns ?? definition.execution_config?.max_turns ?? LIMITS.maxTurns,
    max_tokens: limits?.output_tokens ?? settings.max_tokens ?? LIMITS.outputTokens,
    thinking_tokens: settings.thinking_tokens ?? 0,
    container_id: carried.containerId ?? null,
    tool_names: run.pinned.tools.map(({ name }) => name),
    tool_schemas: more.tools.map(({ name, description, input_schema }) => ({ name, description, input_schema })),
    server_tools: settings.server_tools ?? [],
    beta_headers: settings.beta_headers ?? [],
    api_kwargs: settings.api_kwargs ?? {},
    compactor_type: definition.memory_config?.short_term?.strategy ?? 'fifo',
    memory_store_type: memorySettings(definition).enabled ? 'drover' : 'none',
    max_retries: settings.max_retries ?? LIMITS.modelAttempts - 1,
    base_delay: settings.base_delay ?? 1,
    last_known_input_tokens: input === undefined ? null : input + cache_read + cache_write_5m + cache_write_1h,
    last_known_output_tokens: output,
    current_step: run.steps,
    awaiting_frontend_tools: pending.length > 0,
    pending_frontend_tools: pending,
    pending_backend_results: [...more.waiting],
  };
}
