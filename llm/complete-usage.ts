import { NO_TOKENS, promptTokens, type ModelRequest, type ModelResponse, type TokenUsage } from '../core/model.ts';
import { estimateMessages, estimateRequest } from './estimate-tokens.ts';

/**
 * Adds usage that the provider did not report, estimated from request and answer and marked so: a call that counted as
 * nothing would never use up a budget.
 */
export function completeUsage(request: ModelRequest, response: ModelResponse): ModelResponse {
  const { usage, content } = response;
  // Prompts are never empty, nor are answers with content.
  const lacksInput = promptTokens(usage) === 0;
  const lacksOutput = usage.output === 0 && content.length > 0;
  if (!lacksInput && !lacksOutput) return response;
  const input = lacksInput ? estimateRequest(request) : usage.input;
  const output = lacksOutput ? estimateMessages([{ role: 'assistant', content }]) : usage.output;
  return { ...response, usage: { ...usage, input, output, estimated: true } };
}

/**
 * The usage of an answer that broke off when `heard` of it had come. Providers count an answer at its end: before, they report
 * nothing, or its first token. What they report of the prompt is all of it.
 */
export function completeBrokenUsage(request: ModelRequest, heard: string, reported = NO_TOKENS): TokenUsage {
  const input = promptTokens(reported) === 0 ? estimateRequest(request) : reported.input;
  const said = estimateMessages([{ role: 'assistant', content: [{ type: 'text', text: heard }] }]);
  if (input === reported.input && said <= reported.output) return reported;
  return { ...reported, input, output: Math.max(reported.output, said), estimated: true };
}

/** More tokens than any request or answer has. */
export const MOST_TOKENS = 1e12;

/** A token count as a server reports it; undefined if it is not one. */
export function tokenCount(value: unknown): number | undefined {
  return typeof value === 'number' && value >= 0 && value <= MOST_TOKENS ? Math.round(value) : undefined;
}
