/** Converts the blocks of an MCP result into our own form for the model. */
import type { CallToolResult, ReadResourceResult } from '@modelcontextprotocol/sdk/types.js';
import { canonicalJson } from '../../core/canonical-json.ts';
import { holdsInfinity, isDeeperThan } from '../../core/content.ts';
import { LIMITS } from '../../core/limits.ts';
import type { OutputPart } from '../../core/tool-output.ts';
import { losesDigits } from '../../lib/json-integers.ts';
import { isTextType } from '../../core/file-types.ts';
import { charsetOf, NO_SUCH_TEXT, parseOrText, textIn } from '../response-body.ts';

type Block = CallToolResult['content'][number];

/** A result's output, and its form for the model if that differs. */
interface ResultOutput {
  output: unknown;
  content?: OutputPart[];
}

/**
 * Structured content and text blocks are the output itself (JSON text is parsed). With any other block the output is
 * the result, and the model sees each block in our form. Text that only repeats the structured content, as the
 * specification asks for, is shown once.
 */
export function readResult({ content: blocks, structuredContent }: CallToolResult): ResultOutput {
  const isText = blocks.every(({ type }) => type === 'text');
  if (structuredContent === undefined) {
    return isText
      ? { output: parseOrText(textOfBlocks(blocks)) }
      : { output: { content: blocks }, content: blocks.map(toPart) };
  }
  // Cannot be kept, so it is the whole output, which says so: making JSON of it would fail.
  if (holdsInfinity(structuredContent) || isDeeperThan(structuredContent, LIMITS.toolOutputDepth))
    return { output: structuredContent };
  const others = blocks.filter((block) => !repeats(block, structuredContent));
  const structured = keepDigits(structuredContent, blocks);
  if (others.length === 0) return { output: structured };
  const content = [text(canonicalJson(structured)), ...others.map(toPart)];
  return { output: isText ? structured : { structuredContent: structured, content: blocks }, content };
}

/** A resource that was read: a single text is the output itself (JSON is parsed); else each part is converted. */
export function readContents({ contents }: ReadResourceResult): ResultOutput {
  const [only] = contents;
  if (only && contents.length === 1 && 'text' in only) return { output: parseOrText(only.text) };
  const content = contents.map((held) => ({ type: 'resource' as const, resource: held }));
  return { output: { content }, content: content.map(toPart) };
}

/** The text of a result, one line per block. */
export function textOfBlocks(blocks: readonly Block[]): string {
  return blocks.map((block) => (block.type === 'text' ? block.text : '')).join('\n');
}

function repeats(block: Block, structured: unknown): boolean {
  if (block.type !== 'text') return false;
  return block.text.trim() === '' || isJsonOf(block.text, structured);
}

/** Restores integers beyond 2^53, which lost digits when parsed, from a text that repeats the content. */
function keepDigits(structured: unknown, blocks: readonly Block[]): unknown {
  const repeated = blocks.find(
    (block) => block.type === 'text' && losesDigits(block.text) && repeats(block, structured),
  );
  return repeated?.type === 'text' ? parseOrText(repeated.text) : structured;
}

function isJsonOf(words: string, value: unknown): boolean {
  try {
    return canonicalJson(JSON.parse(words)) === canonicalJson(value);
  } catch {
    return words === value;
  }
}

function toPart(block: Block): OutputPart {
  switch (block.type) {
    case 'text':
      return text(block.text);
    case 'image':
      return image(block.mimeType, block.data);
    case 'audio':
      return text(`[${block.mimeType} of ${block.data.length} characters in base64 left out]`);
    case 'resource_link':
      return text(`[resource ${block.uri}: ${[block.title ?? block.name, block.mimeType].filter(Boolean).join(', ')}]`);
    case 'resource':
      return resource(block.resource);
  }
}

function resource(held: Extract<Block, { type: 'resource' }>['resource']): OutputPart {
  if ('text' in held) return text(held.text);
  const type = held.mimeType ?? 'data';
  if (type.startsWith('image/')) return image(type, held.blob);
  const bytes = Buffer.from(held.blob, 'base64');
  const isText = isTextType(type.split(';')[0]?.trim().toLowerCase() ?? '');
  const words = isText ? textIn(bytes, charsetOf(type)) : undefined;
  if (words !== undefined) return text(words);
  const why = isText ? `, whose bytes are ${NO_SUCH_TEXT},` : '';
  return text(`[resource ${held.uri}: ${type} of ${bytes.length} bytes${why} left out]`);
}

function text(words: string): OutputPart {
  return { type: 'text', text: words };
}

function image(mediaType: string, data: string): OutputPart {
  return { type: 'image', source: { type: 'base64', media_type: mediaType, data } };
}
