/** Which model a process embeds with, and whose vectors it replaces. Pure. */
import type { EmbeddingSettings } from '../db/memory-models.ts';

export type { EmbeddingSettings };

export const OFFLINE_EMBEDDINGS = 'offline';
const NO_EMBEDDINGS = 'off';

/** The model that entries of an agent are embedded with, which names `wanted`: that one if there is a key for it. Undefined where none is used. */
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
 * Whether a process embeds anew what has a vector of `model`. Of processes that embed in different ways, one that uses what the agent
 * names replaces the others' vectors; otherwise each leaves alone what the others make, so that no two undo each other's work
 * for ever.
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

/** Names of providers' models are stored with their provider. */
function nameOf(model: string): string {
  return model.includes('/') || model === OFFLINE_EMBEDDINGS ? model : `openai/${model}`;
}
