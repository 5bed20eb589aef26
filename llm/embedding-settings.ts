/** Which model a process embeds with, and whose vectors it replaces. Pure. */
import type { EmbeddingSettings } from '../db/memory-models.ts';

export type { EmbeddingSettings };

export const OFFLINE_EMBEDDINGS = 'offline';
const NO_EMBEDDINGS = 'off';

/**
 * The embedding model for an agent that names `wanted`: that one if there is a key for it, else the process's.
 * Undefined if embeddings are off.
 */
export function modelUnder(
  { model, has_key: hasKey }: EmbeddingSettings,
  wanted: string | undefined,
): string | undefined {
  if (model === NO_EMBEDDINGS) return undefined;
  if (wanted === undefined) return model;
  const named = nameOf(wanted);
  if (named === OFFLINE_EMBEDDINGS) return named;
  return hasKey && named.startsWith('openai/') ? named : model;
}

/**
 * Whether a process re-embeds entries with a vector of `model`. It does if it uses the model that the agent names, or
 * if no other process uses `model`; so processes with different settings never undo each other's work for ever.
 */
export function replaces(
  own: EmbeddingSettings,
  others: readonly EmbeddingSettings[],
  { wanted, model }: { wanted: string | undefined; model: string },
): boolean {
  const mine = modelUnder(own, wanted);
  if (mine === undefined || mine === model) return false;
  const isNamed = wanted !== undefined && mine === nameOf(wanted);
  return isNamed || others.every((each) => modelUnder(each, wanted) !== model);
}

/** Providers' models are stored as `provider/model`. */
function nameOf(model: string): string {
  return model.includes('/') || model === OFFLINE_EMBEDDINGS ? model : `openai/${model}`;
}
