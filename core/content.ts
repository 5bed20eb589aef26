/** Content as blocks of Anthropic's Messages API; other providers' formats are converted at the edge. */
import { z } from 'zod';

export interface TextBlock {
  type: 'text';
  text: string;
  /** For model output: its sources, as the provider gives them. */
  citations?: unknown[];
}

/** A model's reasoning. Kept with its signature and sent back unchanged, as the provider demands. */
interface ThinkingBlock {
  type: 'thinking';
  thinking: string;
  signature: string;
}

interface RedactedThinkingBlock {
  type: 'redacted_thinking';
  data: string;
}

export interface ImageBlock {
  type: 'image';
  source: { type: 'base64'; media_type: string; data: string } | { type: 'url'; url: string };
}

/** A document in the form that models get. */
export interface DocumentBlock {
  type: 'document';
  source: { type: 'base64'; media_type: string; data: string };
  title: string;
}

/** A reference to a file, as messages and events hold it; replaced by its content when sent to a model. */
export interface FileBlock {
  type: 'file';
  file_id: string;
  media_type: string;
  filename: string;
  /** In bytes. */
  size: number;
  /** Pages of a PDF, if they could be counted. */
  pages?: number | undefined;
}

export interface ToolUseBlock {
  type: 'tool_use';
  id: string;
  name: string;
  input: Record<string, unknown>;
}

/** Output of a provider's own tools or compaction: stored as it came, and sent back unchanged, to that provider only. */
interface ProviderBlock {
  type: 'server_tool_use' | 'mcp_tool_use' | 'container_upload' | 'compaction' | `${string}_tool_result`;
}

const PROVIDER_BLOCK = /^(?:server_tool_use|mcp_tool_use|container_upload|compaction|[a-z0-9_]+_tool_result)$/;

/** Whether a block is the provider's own. */
export function isProviderBlock(block: { type: string }): block is ProviderBlock {
  return PROVIDER_BLOCK.test(block.type);
}

/** As models get it. Stored messages hold a reference to the ledger instead, see `StoredToolResult`. */
export interface ToolResultBlock {
  type: 'tool_result';
  tool_use_id: string;
  content: string | (TextBlock | ImageBlock | FileBlock)[];
  is_error?: boolean;
}

export type AssistantBlock = TextBlock | ThinkingBlock | RedactedThinkingBlock | ToolUseBlock | ProviderBlock;
export type UserBlock = TextBlock | ImageBlock | DocumentBlock | FileBlock | ToolResultBlock;

/** A message as models get it. */
export type Message = { role: 'user'; content: UserBlock[] } | { role: 'assistant'; content: AssistantBlock[] };

/** In a stored message a tool's result is a reference: its text lives once, in the ledger row `tool_call_id`. */
export interface StoredToolResult {
  type: 'tool_result';
  tool_use_id: string;
  tool_call_id: string;
}

/** A block of a stored message. */
export type StoredBlock = AssistantBlock | UserBlock | StoredToolResult;

/** Attachments that a client may send with its message. */
export const attachment = z.discriminatedUnion('type', [
  z.object({ type: z.literal('text'), text: z.string() }),
  z.object({
    type: z.literal('image'),
    source: z.discriminatedUnion('type', [
      z.object({ type: z.literal('base64'), media_type: z.string(), data: z.string() }),
      z.object({ type: z.literal('url'), url: z.string() }),
    ]),
  }),
  z.object({
    type: z.literal('file'),
    file_id: z.uuid(),
    media_type: z.string(),
    filename: z.string(),
    size: z.int().min(0),
    /** Pages of a PDF, if they could be counted. */
    pages: z.int().min(1).optional(),
    /** Somebody other than the sender may have written it. */
    trust: z.literal('untrusted').optional(),
  }),
]);
export type Attachment = TextBlock | ImageBlock | AttachedFile;

/** A file attached to a message. */
type AttachedFile = FileBlock & { trust?: 'untrusted' | undefined };

/** The files of a message, with those of the results in it. */
export function filesIn({ content }: Message): FileBlock[] {
  return content.flatMap((block) => {
    if (block.type === 'file') return [block];
    if (block.type !== 'tool_result' || typeof block.content === 'string') return [];
    return block.content.filter((part) => part.type === 'file');
  });
}

/** A JSON value, as `JSON.parse` gives it. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** The text of a message: its text blocks, joined. */
export function textOf(content: readonly { type: string }[]): string {
  return content
    .filter((block): block is TextBlock => block.type === 'text')
    .map((block) => block.text)
    .join('');
}

const UNSTORABLE = /\u0000|[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g;

/** Whether `cleanText` would change nothing; true of most text, and as fast as a scan. */
const isStorable = (text: string) => text.isWellFormed() && !text.includes('\0');

/** Replaces NUL and lone surrogates with U+FFFD: Postgres's jsonb refuses them. */
export function cleanText(text: string): string {
  return isStorable(text) ? text : text.replace(UNSTORABLE, '\uFFFD');
}

/** The first `mostChars` characters, or one fewer: jsonb refuses half of a surrogate pair. */
export function beginningOf(text: string, mostChars: number): string {
  const beginning = text.slice(0, Math.max(0, mostChars));
  return beginning.length < text.length && /[\uD800-\uDBFF]$/.test(beginning) ? beginning.slice(0, -1) : beginning;
}

/**
 * Applies `cleanText` to every string and key of a JSON value, at any depth. Numbers that JSON cannot express become null, as
 * in `JSON.stringify`. Returns the value itself if nothing changes, as is nearly always so.
 */
export function cleanJson<T>(value: T): T {
  return isClean(value) ? value : (cleaned(value) as T);
}

/** Whether `cleanJson` would change nothing. */
export function isClean(value: unknown): boolean {
  if (typeof value === 'string') return isStorable(value);
  if (typeof value === 'number') return Number.isFinite(value);
  if (Array.isArray(value)) return value.every(isClean);
  if (value === null || typeof value !== 'object') return true;
  return Object.entries(value).every(([key, item]) => isStorable(key) && isClean(item));
}

function cleaned(value: unknown): unknown {
  if (typeof value === 'string') return cleanText(value);
  if (Array.isArray(value)) return value.map(cleaned);
  if (typeof value === 'number') return Number.isFinite(value) ? value : null;
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [cleanText(key), cleaned(item)]));
}

/** How many characters `cleanJson` replaces in a value, keys included, as a field of an event; empty if none. */
export function noteReplaced(value: unknown): { replaced?: number } {
  const replaced = isClean(value) ? 0 : countReplaced(value);
  return replaced === 0 ? {} : { replaced };
}

function countReplaced(value: unknown): number {
  if (typeof value === 'string') return value.match(UNSTORABLE)?.length ?? 0;
  if (typeof value !== 'object' || value === null) return 0;
  return Object.entries(value).reduce((sum, [key, item]) => sum + countReplaced(key) + countReplaced(item), 0);
}

/** Whether a JSON value holds a number too large for a double (`1e400`), which JSON cannot express. */
export function holdsInfinity(root: unknown): boolean {
  const left = [root];
  while (left.length > 0) {
    const item = left.pop();
    if (typeof item === 'number' && !Number.isFinite(item)) return true;
    for (const each of inside(item)) left.push(each);
  }
  return false;
}

/** Whether a value's JSON has more than that many commas, lists and objects. */
export function isLargerThan(root: unknown, mostValues: number): boolean {
  const left = [root];
  let count = 0;
  while (left.length > 0) {
    const item = left.pop();
    if (typeof item !== 'object' || item === null) continue;
    const items = inside(item);
    count += Math.max(items.length, 1);
    if (count > mostValues) return true;
    for (const each of items) left.push(each);
  }
  return false;
}

/** Whether a JSON value is nested deeper than `levels`, which must be small enough for recursion. */
export function isDeeperThan(root: unknown, levels: number): boolean {
  if (levels < 0) return true;
  return inside(root).some((item) => isDeeperThan(item, levels - 1));
}

function inside(item: unknown): readonly unknown[] {
  if (typeof item !== 'object' || item === null) return [];
  return Array.isArray(item) ? item : Object.values(item);
}
