import type { AgentDefinition } from '../../core/definition.ts';
import type { PinnedLimits } from '../../core/events.ts';
import { LIMITS } from '../../core/limits.ts';
import type { ModelWindow } from '../../llm/models.ts';

/** A run's limits for model calls, in tokens, from its agent's settings and its model. */
export function effectiveLimits(definition: AgentDefinition, window: ModelWindow): PinnedLimits {
  const settings = { ...definition.model_preferences, ...definition.llm_config };
  return {
    model: window.name,
    context_window: window.tokens,
    conversation_tokens: definition.memory_config?.short_term?.max_tokens ?? null,
    output_tokens: settings.max_tokens ?? LIMITS.outputTokens,
  };
}

/** The name of a run's first model; undefined for the default model. */
export function primaryModelOf(
  { llm_config: llm, model_preferences: preferences }: AgentDefinition,
  override: string | null | undefined,
): string | undefined {
  return override ?? llm?.default_model ?? preferences?.primary_model;
}

/** A run's fallback models, in order. */
export function fallbackModelsOf({ llm_config: llm, model_preferences: preferences }: AgentDefinition): string[] {
  const names = [llm?.fallback_model, ...(preferences?.fallback_models ?? [])];
  return names.filter((name) => name !== undefined);
}
