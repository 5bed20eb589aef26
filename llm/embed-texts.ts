export interface EmbedOptions {
  signal: AbortSignal;
  /** Whether a caller waits: if texts are embedded one by one, these go before those of an import. */
  isWaitedFor?: boolean;
}

/** Embeds texts, in their order. One attempt; rejects on failure, or when `signal` fires. */
export type EmbedTexts = (texts: readonly string[], options: EmbedOptions) => Promise<number[][]>;
