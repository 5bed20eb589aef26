/** Vectors of texts, in their order. One attempt; throws where there are none, or when `signal` fires. */
export type EmbedTexts = (texts: readonly string[], signal: AbortSignal) => Promise<number[][]>;
