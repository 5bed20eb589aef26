/** Describes a model provider to Drover: one object in a file of its own (docs/extending.md). */
import type { Readable } from 'node:stream';
import type { DearerTier, StreamModel } from '../core/model.ts';

/** USD per million tokens, standard tier. */
export interface Rates {
  input: number;
  output: number;
  cacheRead: number;
  write5m: number;
  write1h: number;
}

export interface Price extends Rates {
  /** Requests with a longer prompt cost `rates`; null if those are unknown. */
  long?: { overTokens: number; rates: Rates | null };
}

/** A key, and an address if not the provider's own. */
export interface Credential {
  apiKey: string;
  baseUrl?: string | undefined;
}

export interface FilesTaken {
  imageBytes: number;
  pdfBytes: number;
}

/** A file made by the provider's own tools, as its content begins to arrive. */
interface ProviderFile {
  source: Readable;
  filename: string | undefined;
  mimeType: string | undefined;
}

/** Opens a file by the provider's id. Throws the SDK's errors. */
export type OpenFile = (id: string, signal: AbortSignal) => Promise<ProviderFile>;

export interface Provider {
  /** The prefix of its models' names, `acme/…`, in lower case. Its key is `ACME_API_KEY`, its address `ACME_BASE_URL`. */
  name: string;
  /** Names without a prefix that mean its models, and how they are shown. */
  bare?: { pattern: RegExp; shown: string };
  /** Its default model. Without a configured one, the first provider with a key decides. */
  defaultModel?: string;
  /** List prices by model, undated. Models that are missing have an unknown price. */
  prices: Readonly<Record<string, Price>>;
  /** What dearer tiers cost, as multiples of the list price, by model, undated. Where one is missing, the cost is unknown. */
  tiers?: Partial<Record<DearerTier, Readonly<Record<string, number>>>>;
  /** Context windows in tokens, prompt and answer together, by model, undated. Default: `LIMITS.contextTokens`. */
  contextWindows?: Readonly<Record<string, number>>;
  /** The largest image and PDF that a model accepts from a user, in bytes; 0: none. Without it models accept neither. */
  filesTaken?: (model: string) => FilesTaken;
  /** Whether requests may have reasoning tokens and tools that the provider executes (`thinkingTokens`, `serverTools`). */
  takesOwnTools?: boolean;
  /** Loads its SDK here, so that an unused provider costs nothing. */
  open(credential: Credential): Promise<StreamModel>;
  /** Opens files that answers name (`files` of a response). */
  openFiles?(credential: Credential): Promise<OpenFile>;
}
