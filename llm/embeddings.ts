/** Embeds texts with Drover's own model or a provider's (docs/memory.md). Recent vectors are cached. */
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
  /** This process's settings. */
  settings: EmbeddingSettings;
  /**
   * The embedding model for an agent's entries: the one it names if there is a key for it, else the default. Undefined
   * if embeddings are off.
   */
  modelFor: (wanted: string | undefined) => string | undefined;
  /** Embeds texts, in their order. Rejects if the model fails, or when the signal fires. */
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

/** A vector in pgvector's syntax. */
export function toVector(values: readonly number[]): string {
  return `[${values.map((value) => Math.fround(value)).join(',')}]`;
}

function cut(text: string): string {
  return beginningOf(text, LIMITS.embeddedChars);
}
