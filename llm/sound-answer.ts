/** Repairs answers with wrong types, so that they can be stored, read and counted. */
import { beginningOf, cleanText, type AssistantBlock } from '../core/content.ts';
import type { ModelRequest, ModelResponse, TokenUsage } from '../core/model.ts';
import { MOST_TOKENS } from './complete-usage.ts';
import { newToolUseId } from './messages.ts';

const MOST_NAME_CHARS = 200;

/**
 * The answer with texts that are strings, a model name of limited length, and counts that can be added, whatever the
 * server sent.
 */
export function soundAnswer(request: Pick<ModelRequest, 'model'>, response: ModelResponse): ModelResponse {
  const model = nameOf(response.model) || request.model;
  return { ...response, model, content: response.content.map(soundBlock), usage: soundUsage(response.usage) };
}

function soundBlock(block: AssistantBlock): AssistantBlock {
  switch (block.type) {
    case 'text':
      return { ...block, text: textOf(block.text) };
    case 'thinking':
      return { ...block, thinking: textOf(block.thinking), signature: textOf(block.signature) };
    case 'redacted_thinking':
      return { ...block, data: textOf(block.data) };
    case 'tool_use':
      return { ...block, id: typeof block.id === 'string' ? block.id : newToolUseId(), name: textOf(block.name) };
    default:
      return block;
  }
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : (JSON.stringify(value) ?? ''));

const nameOf = (value: unknown): string =>
  typeof value === 'string' ? beginningOf(cleanText(value), MOST_NAME_CHARS) : '';

function soundUsage(usage: TokenUsage): TokenUsage {
  const counts = Object.entries(usage).map(([name, count]) => [
    name,
    typeof count === 'number' ? Math.min(count, MOST_TOKENS) : count,
  ]);
  return Object.fromEntries(counts) as TokenUsage;
}
