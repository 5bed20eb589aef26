/** Prepares conversations for both providers, and their answers for storage. */
import { losesDigits } from '../lib/json-integers.ts';
import { newId } from '../lib/new-id.ts';
import { holdsInfinity, isDeeperThan } from '../core/content.ts';
import type {
  AssistantBlock,
  FileBlock,
  ImageBlock,
  Message,
  ToolResultBlock,
  TextBlock,
  ToolUseBlock,
  UserBlock,
} from '../core/content.ts';
import { IMAGE_TYPES, typeOfFile } from '../core/file-types.ts';
import type { ModelResponse, StopReason, ToolSpec } from '../core/model.ts';
import { ARGUMENT_DEPTH, FAILED_SILENTLY, RAW_ARGUMENTS } from '../core/tool.ts';

/**
 * Joins neighbouring messages of one role, since providers expect alternating roles; drops empty text, and replaces names of
 * calls that are no names and errors that say nothing, which they refuse; puts tool results first, as they must follow the
 * call.
 */
export function mergeMessages(messages: readonly Message[]): Message[] {
  const merged: Message[] = [];
  for (const message of messages) {
    const last = merged.at(-1);
    if (message.role === 'assistant') {
      const content = message.content.filter(isSaid).map(withSoundName);
      if (last?.role === 'assistant') last.content.push(...content);
      else merged.push({ role: 'assistant', content });
    } else {
      const said = message.content.filter(isSaid).map(withReason);
      // The user sent no text, but the model must answer.
      const content = said.length > 0 || message.content.length === 0 ? said : [BLANK];
      if (last?.role === 'user') last.content.push(...content);
      else merged.push({ role: 'user', content });
    }
  }
  return merged.filter((message) => message.content.length > 0).map(resultsFirst);
}

/** The tools to declare: the request's, or, if it has none, those that the conversation has used. */
export function declaredTools(tools: readonly ToolSpec[], messages: readonly Message[]): ToolSpec[] {
  if (tools.length > 0) return [...tools];
  const used = new Set(toolUsesOf(messages).map((block) => soundName(block.name)));
  return [...used].map((name) => ({ name, description: '', input_schema: { type: 'object' } }));
}

/** Gives each call an id that is unique in the conversation; some compatible servers number each answer from 0. */
export function withOwnIds<Block extends { type: string }>(
  content: readonly (Block | ToolUseBlock)[],
  messages: readonly Message[],
): (Block | ToolUseBlock)[] {
  const taken = new Set(toolUsesOf(messages).map((block) => block.id));
  return content.map((block) => {
    if (!isToolUse(block)) return block;
    const isSound = typeof block.id === 'string' && /^[a-zA-Z0-9_-]{1,64}$/.test(block.id);
    const id = isSound && !taken.has(block.id) ? block.id : newToolUseId();
    taken.add(id);
    return { ...block, id };
  });
}

export function newToolUseId(): string {
  return `toolu_${newId().replaceAll('-', '')}`;
}

/**
 * Whether an answer was cut off, or may have been, as it names no reason for its end. A call of it without any arguments
 * is not one with none: they may not have come.
 */
export function isCutOff(reason: StopReason | undefined): boolean {
  return reason === undefined || reason === 'max_tokens' || reason === 'model_context_window_exceeded';
}

/**
 * Arguments as an object. Anything but a JSON object, too deep nesting or too large a number comes back as `{_raw}`, so
 * that the gate can tell the model; so does an integer that would lose digits, as the tool would get another id, and
 * nothing at all in an answer that was cut off.
 */
export function parseArguments(raw: string, isCut = false): Record<string, unknown> {
  if (raw.trim() === '') return isCut ? { [RAW_ARGUMENTS]: '' } : {};
  try {
    const value: unknown = JSON.parse(raw);
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
    const isKept = !isDeeperThan(value, ARGUMENT_DEPTH) && !holdsInfinity(value) && !losesDigits(raw);
    if (isObject && isKept) return value as Record<string, unknown>;
  } catch {
    // Returned raw below, like any other value that is no object.
  }
  return { [RAW_ARGUMENTS]: raw };
}

/** Makes the reason fit the content: an answer that was not cut off stops for tools exactly if it has calls. */
export function stopReasonFor(content: readonly AssistantBlock[], reason: StopReason): StopReason {
  const calls = content.some((block) => block.type === 'tool_use');
  if (calls && (reason === 'end_turn' || reason === 'stop_sequence')) return 'tool_use';
  return !calls && reason === 'tool_use' ? 'end_turn' : reason;
}

/** The answer without its calls if the model, or its provider, refuses: what is refused is not done. */
export function withoutRefusedCalls(response: ModelResponse): ModelResponse {
  if (response.stopReason !== 'refusal') return response;
  return { ...response, content: response.content.filter((block) => !isToolUse(block)) };
}

/** A tool's result as plain text; `image` gives the text in place of an image. */
export function toolResultText(
  { content }: Pick<ToolResultBlock, 'content'>,
  image: (block: ImageBlock) => string,
): string {
  if (typeof content === 'string') return content;
  return content
    .map((block) => {
      if (block.type === 'file') return noFile(block);
      return block.type === 'text' ? block.text : image(block);
    })
    .join('\n');
}

/** The text that a model gets in place of a file's content. */
export function noFile(
  { filename, media_type }: Pick<FileBlock, 'filename' | 'media_type'>,
  why = 'it is gone, or this model does not take it',
): string {
  return `[file ${filename} (${media_type}) left out: ${why}]`;
}

/** The text that a model gets in place of an image. */
export function noImage({ source }: ImageBlock, why = 'this model takes no such images from tools'): string {
  const kind = source.type === 'base64' ? source.media_type : 'image';
  return `[${kind} left out: ${why}]`;
}

/**
 * An image under the type that its first bytes say, or words in its place if they say none that models take: a request with
 * a wrong type is refused, and so are all that follow in its conversation.
 */
export function soundImage(block: ImageBlock): ImageBlock | TextBlock {
  const { source } = block;
  if (source.type === 'url') return block;
  const head = Buffer.from(source.data.slice(0, HEAD_CHARS), 'base64');
  const type = typeOfFile({ head, declared: undefined, filename: '' });
  if (IMAGE_TYPES.includes(type)) return { type: 'image', source: { ...source, media_type: type } };
  return { type: 'text', text: noImage(block, 'it is no JPEG, PNG, GIF or WebP image') };
}

/** Enough base64 for the first bytes of a file, also with a line break among them. */
const HEAD_CHARS = 64;

const BLANK: TextBlock = { type: 'text', text: '(a message without text)' };

function withSoundName(block: AssistantBlock): AssistantBlock {
  return isToolUse(block) ? { ...block, name: soundName(block.name) } : block;
}

/** A name in the form of tools' names, which the name of a call that a model makes up need not have. */
function soundName(name: string): string {
  return name.replaceAll(/[^a-zA-Z0-9_-]/gu, '_').slice(0, 64) || 'unknown_tool';
}

function withReason(block: UserBlock): UserBlock {
  if (block.type !== 'tool_result' || !block.is_error) return block;
  const { content } = block;
  const isSilent = typeof content === 'string' ? content.trim() === '' : !content.some(isSaid);
  return isSilent ? { ...block, content: FAILED_SILENTLY } : block;
}

function isSaid(block: AssistantBlock | UserBlock): boolean {
  return block.type !== 'text' || block.text.trim() !== '';
}

function resultsFirst(message: Message): Message {
  if (message.role === 'assistant') return message;
  const results = message.content.filter((block) => block.type === 'tool_result');
  const others = message.content.filter((block) => block.type !== 'tool_result');
  return { role: 'user', content: [...results, ...others] };
}

function toolUsesOf(messages: readonly Message[]): ToolUseBlock[] {
  return messages.flatMap((message) => (message.role === 'assistant' ? message.content.filter(isToolUse) : []));
}

function isToolUse(block: { type: string }): block is ToolUseBlock {
  return block.type === 'tool_use';
}
