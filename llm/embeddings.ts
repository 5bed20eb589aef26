/**
 * Texts as vectors, by one function: the model that comes with Drover, or one of a provider (docs/memory.md). A text that was
 * embedded lately is not embedded again.
 */
import { LRUCache } from 'lru-cache';
import { beginningOf } from '../core/content.ts';
import { LIMITS } from '../core/limits.ts';
import { sha256 } from '../core/ids.ts';
import { modelUnder, OFFLINE_EMBEDDINGS, type EmbeddingSettings } from './embedding-settings.ts';
import { createComparer, type CompareTexts } from './compare-texts.ts';
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
  /** How this process embeds. */
  settings: EmbeddingSettings;
  /** The model that an agent's entries are embedded with: the one it names if this installation has a key for it. Undefined where none is used. */
  modelFor: (wanted: string | undefined) => string | undefined;
  /** Vectors of texts, in their order. Throws where the model gives none, or when the signal fires. */
  embed: (model: string, texts: readonly string[], options: EmbedOptions) => Promise<number[][]>;
  /** How like a question texts are whose vectors this process has made before. Throws as `embed` does. */
  compare: CompareTexts;
  close: () => Promise<void>;
}

const OPENAI = /^openai\/(.+)$/;

/** The embeddings of this process. Nothing is loaded before a text is embedded. */
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
  const embed: Embeddings['embed'] = async (model, texts, options) => {
    const keys = texts.map((text) => `${model} ${sha256(text).toString('base64')}`);
    const known = new Map(keys.map((key) => [key, cache.get(key)] as const));
    const missing = new Map(keys.flatMap((key, at) => (known.get(key) ? [] : [[key, cut(texts[at] ?? '')] as const])));
    const made = missing.size === 0 ? [] : await find(model)([...missing.values()], options);
    [...missing.keys()].forEach((key, at) => known.set(key, made[at]));
    return keys.map((key) => {
      const vector = known.get(key);
      if (vector === undefined) throw new Error(`The embedding model "${model}" has left a text out.`);
      cache.set(key, vector);
      return vector;
    });
  };
  const { compare, close } = createComparer(embed);
  return {
    settings,
    modelFor: (wanted) => modelUnder(settings, wanted),
    embed,
    compare,
    close: async () => {
      close();
      await offline.close();
    },
  };
}

/** A vector as pgvector reads it. */
export function toVector(values: readonly number[]): string {
  return `[${values.map((value) => Math.fround(value)).join(',')}]`;
}

function cut(text: string): string {
  return beginningOf(text, LIMITS.embeddedChars);
}
