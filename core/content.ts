/** Content in the block shape of Anthropic's Messages API; other providers are mapped to it at the edge. */
import { z } from 'zod';

export interface TextBlock {
  type: 'text';
  text: string;
  /** Of a model's words: where they come from, as the provider has it. */
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

/** A document as a model gets it. */
export interface DocumentBlock {
  type: 'document';
  source: { type: 'base64'; media_type: string; data: string };
  title: string;
}

/** A file by its id, as messages and events hold it; its content takes its place when it is sent to a model. */
export interface FileBlock {
  type: 'file';
  file_id: string;
  media_type: string;
  filename: string;
  /** In bytes. */
  size: number;
  /** Of a PDF, where they could be counted. */
  pages?: number | undefined;
}

export interface ToolUseBlock {
  type: 'tool_use';
  id: string;
  name: string;
  input: Record<string, unknown>;
}

/**
 * What a provider's own tools and its compaction have put into an answer: kept as it came, and sent back unchanged, to that
 * provider alone.
 */
interface ProviderBlock {
  type: 'server_tool_use' | 'mcp_tool_use' | 'container_upload' | 'compaction' | `${string}_tool_result`;
}

const PROVIDER_BLOCK = /^(?:server_tool_use|mcp_tool_use|container_upload|compaction|[a-z0-9_]+_tool_result)$/;

/** Whether a block is the provider's own. */
export function isProviderBlock(block: { type: string }): block is ProviderBlock {
  return PROVIDER_BLOCK.test(block.type);
}

/** As a model sees it. Stored messages hold a reference to the ledger instead, see `StoredToolResult`. */
export interface ToolResultBlock {
  type: 'tool_result';
  tool_use_id: string;
  content: string | (TextBlock | ImageBlock | FileBlock)[];
  is_error?: boolean;
}

export type AssistantBlock = TextBlock | ThinkingBlock | RedactedThinkingBlock | ToolUseBlock | ProviderBlock;
export type UserBlock = TextBlock | ImageBlock | DocumentBlock | FileBlock | ToolResultBlock;

/** A message as a model gets it. */
export type Message = { role: 'user'; content: UserBlock[] } | { role: 'assistant'; content: AssistantBlock[] };

/** In a stored message a tool's result is a reference: its text lives once, in the ledger row `tool_call_id`. */
export interface StoredToolResult {
  type: 'tool_result';
  tool_use_id: string;
  tool_call_id: string;
}

/** A block of a stored message. */
export type StoredBlock = AssistantBlock | UserBlock | StoredToolResult;

/** What a client may send along with its message. */
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
    /** Of a PDF, where they could be counted. */
    pages: z.int().min(1).optional(),
    /** Somebody else than who has sent it may have written it. */
    trust: z.literal('untrusted').optional(),
  }),
]);
export type Attachment = TextBlock | ImageBlock | AttachedFile;

/** A file as a message brings it. */
type AttachedFile = FileBlock & { trust?: 'untrusted' | undefined };

/** A JSON value, as it comes out of `JSON.parse`. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** The text of a message: its text blocks, joined. */
export function textOf(content: readonly { type: string }[]): string {
  return content
    .filter((block): block is TextBlock => block.type === 'text')
    .map((block) => block.text)
    .join('');
}

const UNSTORABLE = /\u0000|[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g;

/** Whether `cleanText` would leave it as it is; most text is, and is told so at the speed of a scan. */
const isStorable = (text: string) => text.isWellFormed() && !text.includes('\0');

/** Replaces NUL and lone surrogates by U+FFFD: Postgres's jsonb refuses them. */
export function cleanText(text: string): string {
  return isStorable(text) ? text : text.replace(UNSTORABLE, '\uFFFD');
}

/** The first so many characters of a text, or one less: half of a surrogate pair is no text, and jsonb refuses it. */
export function beginningOf(text: string, mostChars: number): string {
  const beginning = text.slice(0, Math.max(0, mostChars));
  return beginning.length < text.length && /[\uD800-\uDBFF]$/.test(beginning) ? beginning.slice(0, -1) : beginning;
}

/**
 * `cleanText` on every string and key of a JSON value, whatever its depth; a number that no JSON can say is null, as
 * `JSON.stringify` has it. What is so already, as nearly all is, comes back itself.
 */
export function cleanJson<T>(value: T): T {
  return isClean(value) ? value : (cleaned(value) as T);
}

function isClean(value: unknown): boolean {
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

/** How many characters `cleanJson` replaces in a value, keys included, as an event notes it: nothing where that is none. */
export function noteReplaced(value: unknown): { replaced?: number } {
  const replaced = isClean(value) ? 0 : countReplaced(value);
  return replaced === 0 ? {} : { replaced };
}

function countReplaced(value: unknown): number {
  if (typeof value === 'string') return value.match(UNSTORABLE)?.length ?? 0;
  if (typeof value !== 'object' || value === null) return 0;
  return Object.entries(value).reduce((sum, [key, item]) => sum + countReplaced(key) + countReplaced(item), 0);
}

/** Whether a JSON value holds a number that was too large for a double (`1e400`), which no JSON can say any more. */
export function holdsInfinity(root: unknown): boolean {
  const left = [root];
  while (left.length > 0) {
    const item = left.pop();
    if (typeof item === 'number' && !Number.isFinite(item)) return true;
    for (const each of inside(item)) left.push(each);
  }
  return false;
}

/** Whether the JSON of a value has more than so many commas, lists and objects. */
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

/** Whether a JSON value is nested deeper than so many levels, which are few enough for a recursion. */
export function isDeeperThan(root: unknown, levels: number): boolean {
  if (levels < 0) return true;
  return inside(root).some((item) => isDeeperThan(item, levels - 1));
}

function inside(item: unknown): readonly unknown[] {
  if (typeof item !== 'object' || item === null) return [];
  return Array.isArray(item) ? item : Object.values(item);
}
