/** Embeds texts with Drover's own model or a provider's (docs/memory.md). Recent vectors are cached. */
import { LRUCache } from 'lru-cache';
import { beginningOf } from '../core/content.ts';
import { LIMITS } from '../core/limits.ts';
import { sha256 } from '../core/ids.ts';
import { modelUnder, OFFLINE_EMBEDDINGS, type EmbeddingSettings } from './embedding-settings.ts';
import { createComparer, type CompareTexts } from './compare-texts.ts';
import { embedEach } from './embed-each.ts';
import type { EmbedOptions, EmbedTexts } from './embed-texts.ts';
import { openOfflineEmbeddings } from './offline-embeddings.ts';
import { embedOverHttp } from './openai-embeddings.ts';
import type { Credential } from './provider.ts';

interface EmbeddingsConfig {
  /** `DROVER_EMBEDDING_MODEL`: `offline`, `off`, or `openai/…`. */
  embeddingModel: string;
  modelKeys: Readonly<Record<string, Credential>>;
}

export interface Embeddings {
  /** This process's settings. */
  settings: EmbeddingSettings;
  /**
   * The embedding model for an agent's entries: the one it names if there is a key for it, else the default. Undefined
   * if embeddings are off.
   */
  modelFor: (wanted: string | undefined) => string | undefined;
  /** Embeds texts, in their order; undefined for one that the model refuses. Rejects if the model fails, or when the signal fires. */
  embedEach: (model: string, texts: readonly string[], options: EmbedOptions) => Promise<(number[] | undefined)[]>;
  /** The same, but rejects if the model refuses one of them. */
  embed: (model: string, texts: readonly string[], options: EmbedOptions) => Promise<number[][]>;
  /** Compares a question with texts that this process has embedded before. Rejects as `embed` does. */
  compare: CompareTexts;
  close: () => Promise<void>;
}

const OPENAI = /^openai\/(.+)$/;

/** The embeddings of this process. Nothing is loaded before the first text. */
export function createEmbeddings({ embeddingModel, modelKeys }: EmbeddingsConfig): Embeddings {
  const offline = openOfflineEmbeddings();
  const cache = new LRUCache<string, number[]>({ max: LIMITS.cachedEmbeddings });
  const { openai } = modelKeys;
  const settings = { model: embeddingModel, has_key: openai !== undefined };
  const find = (model: string): EmbedTexts => {
    if (model === OFFLINE_EMBEDDINGS) return offline.embed;
    const [, name] = OPENAI.exec(model) ?? [];
    if (!openai || name === undefined) throw new Error(`There is no key for the embedding model "${model}".`);
    return (texts, { signal }) => embedOverHttp(openai, { model: name, texts, signal });
  };
  const embedSome: Embeddings['embedEach'] = async (model, texts, options) => {
    const keys = texts.map((text) => `${model} ${sha256(text).toString('base64')}`);
    const { dimensions } = options;
    const fits = (vector: number[] | undefined) => vector?.length === (dimensions ?? vector?.length);
    const known = new Map(keys.map((key) => [key, cache.get(key)] as const).filter(([, vector]) => fits(vector)));
    const missing = new Map(keys.flatMap((key, at) => (known.get(key) ? [] : [[key, cut(texts[at] ?? '')] as const])));
    const made = missing.size === 0 ? [] : await embedEach(find(model), [...missing.values()], options);
    const misfit = made.find((vector) => vector !== undefined && !fits(vector));
    if (misfit)
      throw new Error(
        `The embedding model "${model}" gives vectors of ${misfit.length} numbers, and those that are stored have ${dimensions}.`,
      );
    [...missing.keys()].forEach((key, at) => known.set(key, made[at]));
    return keys.map((key) => {
      const vector = known.get(key);
      if (vector) cache.set(key, vector);
      return vector;
    });
  };
  const embed: Embeddings['embed'] = async (model, texts, options) =>
    (await embedSome(model, texts, options)).map((vector) => {
      if (vector === undefined) throw new Error(`The embedding model "${model}" refuses a text.`);
      return vector;
    });
  const { compare, close } = createComparer(embed);
  return {
    settings,
    modelFor: (wanted) => modelUnder(settings, wanted),
    embedEach: embedSome,
    embed,
    compare,
    close: async () => {
      close();
      await offline.close();
    },
  };
}

/** The length of vectors of one model; 0 if it refused all texts. */
export function lengthOf(vectors: readonly (readonly number[] | undefined)[]): number {
  return vectors.find((vector) => vector !== undefined)?.length ?? 0;
}

/** A vector in pgvector's syntax; null where there is none. */
export function toVector(values: readonly number[]): string;
export function toVector(values: readonly number[] | undefined): string | null;
export function toVector(values: readonly number[] | undefined): string | null {
  return values === undefined ? null : `[${values.map((value) => Math.fround(value)).join(',')}]`;
}

function cut(text: string): string {
  return beginningOf(text, LIMITS.embeddedChars);
}
