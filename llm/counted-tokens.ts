/** Providers say how many tokens a prompt has that they refuse for its length. */

const COUNTS: readonly RegExp[] = [
  // Anthropic: "prompt is too long: 225318 tokens > 200000 maximum", "exceed context limit: 188240 + 21333 > 200000".
  /too long: (\d+) tokens/i,
  /context limit: (\d+) \+ \d+/i,
  // OpenAI and servers like it: "your messages resulted in 130012 tokens", "9500 tokens (9000 in the messages, …)".
  /resulted in (\d+) tokens/i,
  /\((\d+) in the (?:messages|prompt)/i,
];

/** The prompt's tokens by the message of the refusal; undefined if it does not say. */
export function countedTokens(message: string): number | undefined {
  for (const pattern of COUNTS) {
    const tokens = Number(pattern.exec(message)?.[1]);
    if (tokens > 0) return tokens;
  }
  return undefined;
}
