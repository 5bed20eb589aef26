/** Which model a process embeds with, and whose vectors it replaces. Pure. */
import { OFFLINE_EMBEDDINGS, readVectorName } from '../core/memory/vector-names.ts';
import type { GivenLengths } from '../db/memory-index.ts';
import type { EmbeddingSettings } from '../db/memory-models.ts';

export type { EmbeddingSettings };

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

/** Vectors, or refused texts, by the name that is stored as their model. */
interface Replaceable {
  wanted: string | undefined;
  model: string;
  /** Those of the process's own model; none if its vectors are always of one. */
  lengths?: GivenLengths;
}

const OF_ONE_LENGTH: GivenLengths = { given: undefined, first: undefined };

/**
 * Whether a process embeds such entries anew. It does if it uses the model that the agent names, or if no other process uses
 * theirs; so processes with different settings never undo each other's work for ever. Of its own model it replaces vectors of
 * another length than is given now.
 */
export function replaces(
  own: EmbeddingSettings,
  others: readonly EmbeddingSettings[],
  { wanted, model: name, lengths: { given, first } = OF_ONE_LENGTH }: Replaceable,
): boolean {
  const mine = modelUnder(own, wanted);
  if (mine === undefined) return false;
  const { model, length = first, isRefused } = readVectorName(name);
  if (mine === model) return !isRefused && given !== undefined && length !== undefined && length !== given;
  const isNamed = wanted !== undefined && mine === nameOf(wanted);
  return isNamed || others.every((each) => modelUnder(each, wanted) !== model);
}

/** Providers' models are stored as `provider/model`. */
function nameOf(model: string): string {
  return model.includes('/') || model === OFFLINE_EMBEDDINGS ? model : `openai/${model}`;
}
