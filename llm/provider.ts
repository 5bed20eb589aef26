/** What a model provider is to the rest of Drover: one object in a file of its own (docs/extending.md). */
import type { Readable } from 'node:stream';
import type { StreamModel } from '../core/model.ts';

/** USD per million tokens, standard tier. */
export interface Rates {
  input: number;
  output: number;
  cacheRead: number;
  write5m: number;
  write1h: number;
}

export interface Price extends Rates {
  /** Requests whose whole prompt is longer cost `rates`; null if those are not known. */
  long?: { overTokens: number; rates: Rates | null };
}

/** Who asks, and where if not at the provider's own address. */
export interface Credential {
  apiKey: string;
  baseUrl?: string | undefined;
}

export interface FilesTaken {
  imageBytes: number;
  pdfBytes: number;
}

/** A file that the provider's own tools have made, as its content begins to come. */
interface ProviderFile {
  source: Readable;
  filename: string | undefined;
  mimeType: string | undefined;
}

/** Opens a file by the provider's id. Throws whatever its SDK throws. */
export type OpenFile = (id: string, signal: AbortSignal) => Promise<ProviderFile>;

export interface Provider {
  /** What a model's name begins with, `acme/…`: lower case. Its key is `ACME_API_KEY`, its address `ACME_BASE_URL`. */
  name: string;
  /** Names without a provider that are its models', and how they are shown. */
  bare?: { pattern: RegExp; shown: string };
  /** Asked where nobody names a model: that of the first provider with a key. */
  defaultModel?: string;
  /** List prices by model, without its date. What is not in here costs nobody knows what. */
  prices: Readonly<Record<string, Price>>;
  /** Tokens that a model takes, prompt and answer together, in the same way. What is not in here takes `LIMITS.contextTokens`. */
  contextWindows?: Readonly<Record<string, number>>;
  /** The largest image and PDF that a model takes from a user, in bytes; 0: none. Without it a model takes none of either. */
  filesTaken?: (model: string) => FilesTaken;
  /** Its requests have tokens for reasoning, and tools that it executes itself (`thinkingTokens`, `serverTools`). */
  takesOwnTools?: boolean;
  /** Its SDK is loaded here, so that nobody waits for one that is not asked. */
  open(credential: Credential): Promise<StreamModel>;
  /** Where answers name files (`files` of a response): how to get them. */
  openFiles?(credential: Credential): Promise<OpenFile>;
}
