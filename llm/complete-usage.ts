import { promptTokens, type ModelRequest, type ModelResponse } from '../core/model.ts';
import { estimateMessages, estimateRequest } from './estimate-tokens.ts';

/**
 * The answer with what it has used. Where the provider does not say, that is estimated from what was sent and what came
 * back, and marked: a call that counted as nothing would never use up a budget.
 */
export function completeUsage(request: ModelRequest, response: ModelResponse): ModelResponse {
  const { usage, content } = response;
  // No prompt is empty, and no answer with content is.
  const lacksInput = promptTokens(usage) === 0;
  const lacksOutput = usage.output === 0 && content.length > 0;
  if (!lacksInput && !lacksOutput) return response;
  const input = lacksInput ? estimateRequest(request) : usage.input;
  const output = lacksOutput ? estimateMessages([{ role: 'assistant', content }]) : usage.output;
  return { ...response, usage: { ...usage, input, output, estimated: true } };
}

/** More than any request or answer has. */
export const MOST_TOKENS = 1e12;

/** A count of tokens as a server reports it; undefined for whatever is none. */
export function tokenCount(value: unknown): number | undefined {
  return typeof value === 'number' && value >= 0 && value <= MOST_TOKENS ? Math.round(value) : undefined;
}
