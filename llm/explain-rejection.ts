/** Says what to do if a provider refuses a key or does not know a model. */
import type { ModelError } from '../core/model.ts';
import { variableOf } from './providers.ts';

/** Undefined for any other error: the request itself was at fault. */
export function explainRejection(
  { provider: name, model }: { provider: string; model: string },
  { kind, message }: Pick<ModelError, 'kind' | 'message'>,
): string | undefined {
  if (kind === 'authentication') {
    return `${message}. Check ${variableOf({ name }, 'API_KEY')}, and what its account may use and has paid for.`;
  }
  if (kind !== 'unknown_model') return undefined;
  const settings = "the agent's llm_config.default_model, the run's config.model_override or DROVER_MODEL";
  return `${message}. Check the model's name "${model}" in ${settings}, and ${variableOf({ name }, 'BASE_URL')} if it is set.`;
}
