/** Agent definitions: what an agent is and does, and what the registry knows about it, in one object. */
import { z } from 'zod';
import { STRATEGIES } from './compaction.ts';
import { workflowGraph } from './graph/definition.ts';
import { LIMITS } from './limits.ts';
import type { ConsolidationSettings } from './memory/consolidation.ts';
import {
  CONFLICT_CHECKS,
  MEMORY_SCOPES,
  memoryType,
  type ConflictCheck,
  type MemoryScopeName,
  type MemoryType,
} from './memory/entry.ts';
import { providerSettings } from './provider-settings.ts';
import { toolBinding } from './tool-bindings.ts';
import { userMetadata } from './user-metadata.ts';

const name64 = z.string().min(1).max(64);
const tokens = z.int().min(1).max(10_000_000);

/** A worked example: what a user asked and which calls led to the answer. Goes into the system prompt. */
const workflowExample = z
  .strictObject({
    question: z.string().max(5000).describe('What the user asks. `{name}` stands for a part that varies.'),
    steps: z
      .array(
        z.strictObject({
          tool: name64,
          input: z
            .record(z.string(), z.unknown())
            .default({})
            .describe('Arguments. `{name}` refers to the question, `{{steps.0.output.path}}` to an earlier result.'),
        }),
      )
      .max(50)
      .default([]),
    answer: z.string().max(20_000).optional().describe('How the answer reads, with the same references.'),
  })
  .meta({ id: 'WorkflowExample' });
export type WorkflowExample = z.output<typeof workflowExample>;

const example = z.union([z.string().max(20_000), workflowExample]);

const systemPrompt = z.union([
  z.string().max(200_000),
  z.strictObject({
    role: z.string().max(20_000).optional(),
    instructions: z.string().max(200_000).optional(),
    examples: z.array(example).max(100).optional(),
  }),
]);

/** A list that a client may send only empty: its elements would have no effect. */
const emptyList = z.array(z.unknown()).max(0);

const jsonSchema = z.record(z.string(), z.unknown()).describe('A JSON Schema, draft 2020-12 or draft-07.');

const formatRail = z
  .strictObject({
    type: z.literal('format'),
    config: z.strictObject({
      schema: jsonSchema,
      max_retries: z.int().min(0).max(10).optional().describe('Times that the model is asked again, 2 where absent.'),
    }),
  })
  .meta({ id: 'FormatRail' });

const guardrailConfig = z.strictObject({
  input_rails: emptyList.optional(),
  output_rails: z.array(formatRail).max(10).optional().describe('What final answers have to fit, all of it.'),
  tool_rails: z
    .strictObject({
      max_calls_per_turn: z.int().min(0).max(10_000).optional(),
      allowed_tools: z.union([z.literal('all'), z.array(name64)]).optional(),
    })
    .optional(),
});

const memoryConfig = z.strictObject({
  short_term: z.strictObject({ max_tokens: tokens.optional(), strategy: z.enum(STRATEGIES).optional() }).optional(),
  long_term: z
    .strictObject({
      enabled: z.boolean().optional().describe('Each turn is given what its message brings to mind.'),
      scopes: z
        .array(z.enum(MEMORY_SCOPES))
        .min(1)
        .optional()
        .describe('Whose memories a turn is given: all of the agent’s where absent, and what its teams share.'),
      conflict_check: z
        .enum(CONFLICT_CHECKS)
        .optional()
        .describe(
          'Whether new entries are held against the nearest ones: by `rules`, also where absent, by a `model`, or not.',
        ),
      extract: z
        .boolean()
        .optional()
        .describe(
          'Whether each turn is learnt from after its end, which costs a call of the agent’s model. Not where absent.',
        ),
      embedding_model: z.string().max(200).optional(),
      top_k: z.int().min(1).max(100).optional(),
      min_score: z.number().min(0).max(1).optional(),
      max_tokens: tokens.optional().describe('What a turn is given at most, 2,000 where absent.'),
      profile_max_tokens: tokens
        .optional()
        .describe('Standing instructions and preferences at most, 1,000 where absent.'),
      memory_types: z.array(memoryType).min(1).optional(),
    })
    .optional(),
  procedural: z
    .strictObject({ enabled: z.boolean().optional(), min_frequency: z.int().min(1).optional() })
    .optional()
    .describe('What consolidation learns from turns: sequences of tools that were used so many times.'),
  consolidation: z
    .strictObject({
      min_age_hours: z.number().min(0).max(1_000_000).optional(),
      max_tokens: tokens.optional(),
      importance_threshold: z.number().min(0).max(1).optional(),
      max_entry_tokens: tokens.optional(),
      archive_evicted: z.boolean().optional(),
      half_life_hours: z.number().positive().max(1_000_000).optional(),
    })
    .optional()
    .describe('Where it is there, the short term is consolidated by itself.'),
});

const llmConfig = z.strictObject({
  default_model: z.string().max(200).optional(),
  fallback_model: z.string().max(200).optional(),
  temperature: z.number().min(0).max(2).optional(),
  max_tokens: z.int().min(1).max(1_000_000).optional(),
  ...providerSettings,
});

const modelPreferences = z.strictObject({
  primary_model: z.string().max(200).optional(),
  fallback_models: z.array(z.string().max(200)).max(10).optional(),
  temperature: z.number().min(0).max(2).optional(),
  max_tokens: z.int().min(1).max(1_000_000).optional(),
  ...providerSettings,
});

const executionConfig = z.strictObject({
  max_turns: z.int().min(1).max(1000).optional().describe('Steps per turn, 25 where absent.'),
  timeout_seconds: z.number().positive().max(LIMITS.runDrivingSeconds).optional().describe('Driving time of a turn.'),
  checkpoint_frequency: z.enum(['every_turn', 'on_change', 'manual']).optional(),
  on_unknown: z.enum(['ask', 'tell_model', 'fail', 'retry']).optional(),
  approval_timeout_seconds: z.number().positive().max(LIMITS.waitSeconds).optional(),
  four_eyes: z
    .boolean()
    .optional()
    .describe('The keys that asked for a turn, steered it or answered in it may not approve its calls.'),
  client_tool_timeout_seconds: z.number().positive().max(LIMITS.waitSeconds).optional(),
  provider_outage_seconds: z
    .number()
    .min(0)
    .max(LIMITS.waitSeconds)
    .optional()
    .describe('How long a run waits for a model provider that is away, a day where absent.'),
  reflect: z
    .boolean()
    .optional()
    .describe('Whether a model is asked if each answer does what was asked for, before the turn ends with it.'),
});

const capability = z.strictObject({
  skill_name: z.string().min(1).max(200),
  domain: z.string().max(200).optional(),
  proficiency: z.number().min(0).max(1).optional(),
  input_schema: z.record(z.string(), z.unknown()).optional(),
  output_schema: z.record(z.string(), z.unknown()).optional(),
});

/** A definition as a client sends it. Only `name` is required. */
export const agentDefinition = z
  .strictObject({
    name: z.string().trim().min(1).max(100),
    description: z.string().max(1000).optional(),
    version: z
      .string()
      .regex(/^\d{1,9}\.\d{1,9}\.\d{1,9}$/, 'expected semver such as 1.0.0')
      .optional(),
    system_prompt: systemPrompt.optional(),
    workflow_graph: workflowGraph.optional(),
    memory_config: memoryConfig.optional(),
    guardrail_config: guardrailConfig.optional(),
    llm_config: llmConfig.optional(),
    model_preferences: modelPreferences.optional(),
    execution_config: executionConfig.optional(),
    output_schema: jsonSchema.optional().describe('What final answers have to fit: `output.data` is their value.'),
    tools: z.array(z.string().min(1).max(200)).max(200).optional().describe('Tools by id or by name.'),
    tool_bindings: z
      .array(toolBinding)
      .max(200)
      .optional()
      .describe('Tools beside those in `tools`, or what holds for these.'),
    capabilities: z.array(capability).max(200).optional(),
    permissions: z.array(z.string().min(1).max(200)).max(200).optional(),
    autonomy_level: z.int().min(0).max(3).optional(),
    constraints: z
      .strictObject({
        max_concurrent_tasks: z.int().min(1).optional(),
        max_context_tokens: tokens.optional(),
        timeout_seconds: z.number().positive().optional(),
      })
      .optional(),
    health: z
      .strictObject({
        success_rate_7d: z.number().min(0).max(1).optional(),
        avg_latency_ms: z
          .number()
          .min(0)
          .max(LIMITS.waitSeconds * 1000)
          .optional(),
        avg_tokens_per_task: z.number().min(0).optional(),
      })
      .optional(),
    metadata: userMetadata.optional(),
    tags: z.array(z.string().max(100)).max(100).optional(),
    is_active: z.boolean().optional(),
  })
  .meta({ id: 'AgentDefinition' });

/** A stored definition: what the client sent. Defaults are read through the functions below, so that they can improve. */
export type AgentDefinition = z.output<typeof agentDefinition>;

/** Worked examples that are structured data; others are plain text. */
export function workflowExamplesOf(definition: AgentDefinition): WorkflowExample[] {
  const prompt = definition.system_prompt;
  if (!prompt || typeof prompt === 'string') return [];
  return (prompt.examples ?? []).filter((item): item is WorkflowExample => typeof item !== 'string');
}

/** The default autonomy level. */
export const DEFAULT_AUTONOMY = 2;

export function autonomyOf(definition: AgentDefinition): number {
  return definition.autonomy_level ?? DEFAULT_AUTONOMY;
}

/** How long a run waits for an unavailable model provider, in seconds. */
export function outageSeconds(definition: AgentDefinition): number {
  return definition.execution_config?.provider_outage_seconds ?? LIMITS.providerOutageSeconds;
}

/** How long people have to decide on an approval, in seconds. */
export function approvalSeconds(definition: AgentDefinition): number {
  return Math.min(definition.execution_config?.approval_timeout_seconds ?? LIMITS.approvalSeconds, LIMITS.waitSeconds);
}

/** How long a client has to answer calls of its own tools, in seconds. Agents of older builds may ask for more than the maximum. */
export function clientToolSeconds(definition: AgentDefinition): number {
  return Math.min(
    definition.execution_config?.client_tool_timeout_seconds ?? LIMITS.clientToolSeconds,
    LIMITS.waitSeconds,
  );
}

/** Which memories a turn is given. */
export interface MemorySettings {
  enabled: boolean;
  topK: number;
  minScore: number | undefined;
  maxTokens: number;
  profileTokens: number;
  memoryTypes: readonly MemoryType[] | undefined;
  /** Undefined: all of the agent's memories, and those its teams share. */
  scopes: readonly MemoryScopeName[] | undefined;
  embeddingModel: string | undefined;
}

/** An agent's memory settings, with defaults. */
export function memorySettings({ memory_config: config }: AgentDefinition): MemorySettings {
  const longTerm = config?.long_term;
  return {
    enabled: longTerm?.enabled ?? false,
    topK: longTerm?.top_k ?? LIMITS.recallDefault,
    minScore: longTerm?.min_score,
    maxTokens: longTerm?.max_tokens ?? LIMITS.memoryTokens,
    profileTokens: longTerm?.profile_max_tokens ?? LIMITS.profileTokens,
    memoryTypes: longTerm?.memory_types,
    scopes: longTerm?.scopes,
    embeddingModel: longTerm?.embedding_model,
  };
}

/** How new entries are checked against existing ones. Default: by rules, if the agent has a long-term memory. */
export function conflictSettings({ memory_config: config }: AgentDefinition): ConflictCheck {
  const longTerm = config?.long_term;
  return longTerm?.conflict_check ?? (longTerm?.enabled ? 'rules' : 'off');
}

/** Whether an agent learns from its turns: only with a long-term memory, and if it asks for it. */
export function extractionSettings({ memory_config: config }: AgentDefinition): { enabled: boolean } {
  const longTerm = config?.long_term;
  return { enabled: (longTerm?.enabled ?? false) && (longTerm?.extract ?? false) };
}

/** Consolidation settings of an agent's short-term memory, with defaults. */
export function consolidationSettings({ memory_config: config }: AgentDefinition): ConsolidationSettings {
  const given = config?.consolidation ?? {};
  return {
    minAgeHours: given.min_age_hours ?? LIMITS.consolidationAgeHours,
    maxTokens: given.max_tokens ?? config?.short_term?.max_tokens ?? LIMITS.shortTermTokens,
    importanceThreshold: given.importance_threshold ?? LIMITS.importanceThresholdPercent / 100,
    maxEntryTokens: given.max_entry_tokens ?? LIMITS.longTermEntryTokens,
    archiveEvicted: given.archive_evicted ?? true,
    halfLifeHours: given.half_life_hours ?? LIMITS.memoryHalfLifeHours,
  };
}
