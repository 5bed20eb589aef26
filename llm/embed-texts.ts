export interface EmbedOptions {
  signal: AbortSignal;
  /** Somebody waits for the answer: where one text after the other is embedded, these go before those of an import. */
  isWaitedFor?: boolean;
}

/** Vectors of texts, in their order. One attempt; throws where there are none, or when `signal` fires. */
export type EmbedTexts = (texts: readonly string[], options: EmbedOptions) => Promise<number[][]>;
