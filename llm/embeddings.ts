/** Embeds texts with Drover's own model or a provider's (docs/memory.md). Recent vectors are cached. */
import { LRUCache } from 'lru-cache';
import { beginningOf } from '../core/content.ts';
import { LIMITS } from '../core/limits.ts';
import { sha256 } from '../core/ids.ts';
import { OFFLINE_EMBEDDINGS } from '../core/memory/vector-names.ts';
import { modelUnder, type EmbeddingSettings } from './embedding-settings.ts';
import { createComparer, type CompareTexts } from './compare-texts.ts';
import { embedEach } from './embed-each.ts';
import type { EmbedOptions, EmbedTexts, PayForEmbeddings } from './embed-texts.ts';
import { createPaces, type PaceConfig } from './model-pace.ts';
import { openOfflineEmbeddings } from './offline-embeddings.ts';
import { embedOverHttp } from './openai-embeddings.ts';
import type { Credential } from './provider.ts';

interface EmbeddingsConfig extends PaceConfig {
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
  /** The lengths of vectors that models gave since the last call; none of the model that comes with Drover. */
  takeLengths: () => { model: string; length: number }[];
  /** Compares a question with texts that this process has embedded before. Rejects as `embed` does. */
  compare: CompareTexts;
  close: () => Promise<void>;
}

/** The model gives vectors of another length than before. */
export class OtherLength extends Error {
  readonly length: number;

  constructor(model: string, length: number, stored: number | undefined) {
    super(
      `The embedding model "${model}" gives vectors of ${length} numbers, and those that are stored have ${stored}.`,
    );
    this.length = length;
  }
}

const OPENAI = /^openai\/(.+)$/;

/** The embeddings of this process. Nothing is loaded before the first text. `pay`: accounts for requests to providers. */
export function createEmbeddings(config: EmbeddingsConfig, pay: PayForEmbeddings): Embeddings {
  const { embeddingModel, modelKeys } = config;
  const paceOf = createPaces(config);
  const offline = openOfflineEmbeddings();
  const cache = new LRUCache<string, number[]>({ max: LIMITS.cachedEmbeddings });
  /** Of the last vectors that models gave: cached ones of another length are made anew. */
  const lengths = new Map<string, number>();
  const untold = new Set<string>();
  const { openai } = modelKeys;
  const settings = { model: embeddingModel, has_key: openai !== undefined };
  const find = (model: string): EmbedTexts => {
    if (model === OFFLINE_EMBEDDINGS) return offline.embed;
    const [, name] = OPENAI.exec(model) ?? [];
    if (!openai || name === undefined) throw new Error(`There is no key for the embedding model "${model}".`);
    return (texts, options) => embedOverHttp({ credential: openai, pay, paceOf }, { model: name, texts, options });
  };
  const embedSome: Embeddings['embedEach'] = async (model, texts, options) => {
    const keys = texts.map((text) => `${model} ${sha256(text).toString('base64')}`);
    const { dimensions } = options;
    const fits = (vector: number[] | undefined) =>
      vector?.length === (dimensions ?? lengths.get(model) ?? vector?.length);
    const known = new Map(keys.map((key) => [key, cache.get(key)] as const).filter(([, vector]) => fits(vector)));
    const missing = new Map(keys.flatMap((key, at) => (known.get(key) ? [] : [[key, cut(texts[at] ?? '')] as const])));
    const made = missing.size === 0 ? [] : await embedEach(find(model), [...missing.values()], options);
    const length = lengthOf(made);
    if (length > 0 && model !== OFFLINE_EMBEDDINGS) {
      lengths.set(model, length);
      untold.add(model);
    }
    const misfit = made.find((vector) => vector !== undefined && vector.length !== (dimensions ?? vector.length));
    if (misfit) throw new OtherLength(model, misfit.length, dimensions);
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
    takeLengths() {
      const taken = [...untold].map((model) => ({ model, length: lengths.get(model) ?? 0 }));
      untold.clear();
      return taken;
    },
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
