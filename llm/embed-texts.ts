export interface EmbedOptions {
  signal: AbortSignal;
  /** Whether a caller waits: if texts are embedded one by one, these go before those of an import. */
  isWaitedFor?: boolean;
  /** The length of vectors that are stored of the model: those of another one are an error. */
  dimensions?: number | undefined;
}

/** Embeds texts, in their order. One attempt; rejects on failure, or when `signal` fires. */
export type EmbedTexts = (texts: readonly string[], options: EmbedOptions) => Promise<number[][]>;
