/** Estimates tokens for budgets before a call, for providers that report none, and for the offline planner. */
import type { AssistantBlock, FileBlock, Message, UserBlock } from '../core/content.ts';
import { PDF_TYPE } from '../core/file-types.ts';
import type { ToolSpec } from '../core/model.ts';

/** At most about this many: providers count pixels (Anthropic: width × height / 750, 1.15 megapixels). */
const IMAGE_TOKENS = 1600;
/** Role and separators of a message. */
const MESSAGE_TOKENS = 4;

/** A token is about 4 Latin letters, 2 letters of another alphabet, or 1 CJK character; an emoji is 2. Rounded up. */
export function estimateTokens(text: string): number {
  // In ASCII, as most text is, each code unit is one byte, so a division does.
  if (Buffer.byteLength(text) === text.length) return Math.ceil(text.length / 4);
  let quarters = 0;
  for (let index = 0; index < text.length; index += 1) quarters += quartersOf(text.charCodeAt(index));
  return Math.ceil(quarters / 4);
}

/** Estimated tokens of a conversation, images and tool calls included. */
export function estimateMessages(messages: readonly Message[]): number {
  return messages.reduce(
    (sum, message) => sum + message.content.reduce((tokens, block) => tokens + blockTokens(block), 0) + MESSAGE_TOKENS,
    0,
  );
}

/** Estimated input tokens of a whole request: system prompt, tools and conversation. */
export function estimateRequest(request: {
  system: string;
  messages: readonly Message[];
  tools: readonly ToolSpec[];
}): number {
  const tools = request.tools.length === 0 ? 0 : estimateTokens(JSON.stringify(request.tools));
  return estimateTokens(request.system) + tools + estimateMessages(request.messages);
}

function quartersOf(unit: number): number {
  if (unit < 0x250) return 1;
  return unit < 0x2e80 ? 2 : 4;
}

/** A page is sent as text and as an image. If only the size is known, a page counts as 50 KB. */
function documentTokens(bytes: number, pages = Math.max(1, Math.ceil(bytes / 50_000))): number {
  return 2 * IMAGE_TOKENS * pages;
}

function fileTokens({ media_type, size, pages }: FileBlock): number {
  if (media_type.startsWith('image/')) return IMAGE_TOKENS;
  return media_type === PDF_TYPE ? documentTokens(size, pages) : Math.ceil(size / 4);
}

function blockTokens(block: AssistantBlock | UserBlock): number {
  switch (block.type) {
    case 'text':
      return estimateTokens(block.text);
    case 'thinking':
      return estimateTokens(block.thinking);
    case 'redacted_thinking':
      return estimateTokens(block.data);
    case 'image':
      return IMAGE_TOKENS;
    case 'document':
      return documentTokens((block.source.data.length * 3) / 4);
    case 'file':
      return fileTokens(block);
    case 'tool_use':
      return estimateTokens(block.name) + estimateTokens(JSON.stringify(block.input));
    case 'tool_result':
      return typeof block.content === 'string'
        ? estimateTokens(block.content)
        : block.content.reduce((tokens, part) => tokens + blockTokens(part), 0);
    default:
      return estimateTokens(JSON.stringify(block));
  }
}
