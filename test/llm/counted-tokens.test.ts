import assert from 'node:assert/strict';
import { countedTokens } from '../../llm/counted-tokens.ts';

describe('The tokens of a prompt that was refused for its length', () => {
  it('are those that its provider names, if it does', () => {
    const counted = [
      'anthropic: prompt is too long: 225318 tokens > 200000 maximum (status 400)',
      'input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000',
      "This model's maximum context length is 128000 tokens. However, your messages resulted in 130012 tokens.",
      "This model's maximum context length is 8192 tokens. However, you requested 9500 tokens (9000 in the messages, 500 in the completion).",
      'input is too long',
    ].map(countedTokens);
    assert.deepEqual(counted, [225318, 188240, 130012, 9000, undefined]);
  });
});
