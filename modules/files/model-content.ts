/** Replaces file ids by contents in a request about to be sent to a model. */
import { isUtf8 } from 'node:buffer';
import { buffer } from 'node:stream/consumers';
import {
  cleanText,
  filesIn,
  type DocumentBlock,
  type FileBlock,
  type ImageBlock,
  type Message,
  type TextBlock,
} from '../../core/content.ts';
import { faultOfFile, IMAGE_TYPES, isTextType } from '../../core/file-types.ts';
import { LIMITS } from '../../core/limits.ts';
import { findFiles, type FileRow } from '../../db/files.ts';
import { noFile } from '../../llm/messages.ts';
import type { FilesTaken } from '../../llm/provider.ts';
import type { ProcessContext } from '../process-context.ts';
import { contentBroken, openContent } from './content.ts';

type Filling = Pick<ProcessContext, 'db' | 'fileStore' | 'fileCache'>;
type Filled = TextBlock | ImageBlock | DocumentBlock;

/**
 * Fills in the contents of files in messages, newest first. Files that are gone, that the model does not accept, or
 * that exceed a request's limit are named in words. Throws 503 if the store is away.
 */
export async function fillFiles(
  context: Filling,
  { tenantId, taken }: { tenantId: string; taken: FilesTaken },
  messages: readonly Message[],
): Promise<Message[]> {
  const named = messages.flatMap(filesIn);
  if (named.length === 0) return [...messages];
  const ids = [...new Set(named.map(({ file_id }) => file_id))];
  const rows = new Map((await context.db.withTenant(tenantId, (tx) => findFiles(tx, ids))).map((row) => [row.id, row]));
  let left: number = LIMITS.attachedBytes;
  const contents = new Map<string, Filled>();
  for (const block of named.toReversed()) {
    if (contents.has(block.file_id)) continue;
    const row = rows.get(block.file_id);
    const fault = row && (faultOfFile(row, taken) ?? (row.size > left ? TOO_MUCH : undefined));
    const content = row && fault === undefined ? await contentOf(context, row) : undefined;
    if (row && content) left -= row.size;
    contents.set(block.file_id, content ?? { type: 'text', text: noFile(block, fault ?? DELETED) });
  }
  const fill = (block: FileBlock): Filled => contents.get(block.file_id) ?? { type: 'text', text: noFile(block) };
  return messages.map((message) => filled(message, fill));
}

const DELETED = 'it was deleted';
const TOO_MUCH = `a request has ${LIMITS.attachedBytes} bytes of files at most, the newest first`;

function filled(message: Message, fill: (block: FileBlock) => Filled): Message {
  if (message.role === 'assistant') return message;
  const content = message.content.map((block) => {
    if (block.type === 'file') return fill(block);
    if (block.type !== 'tool_result' || typeof block.content === 'string') return block;
    const parts = block.content.map((part) => {
      if (part.type !== 'file') return part;
      const whole = fill(part);
      // Results can hold only text and images.
      return whole.type === 'document' ? { type: 'text' as const, text: noFile(part, NOT_IN_RESULTS) } : whole;
    });
    return { ...block, content: parts };
  });
  return { role: 'user', content };
}

async function contentOf(context: Filling, row: FileRow): Promise<Filled | undefined> {
  const isText = isTextType(row.mime_type);
  const key = `${row.content_id} ${isText ? 'text' : 'base64'}`;
  let content = context.fileCache.get(key);
  if (content === undefined) {
    if (isText && row.is_utf8 === false) return notUtf8(row);
    const bytes = await read(context, row);
    if (!bytes) return undefined;
    // Older files were not checked on upload.
    if (isText && !isUtf8(bytes)) return notUtf8(row);
    content = isText ? cleanText(new TextDecoder().decode(bytes)) : bytes.toString('base64');
    context.fileCache.set(key, content);
  }
  if (isText) return { type: 'text', text: `File ${JSON.stringify(row.filename)} (${row.mime_type}):\n${content}` };
  const source = { type: 'base64' as const, media_type: row.mime_type, data: content };
  return IMAGE_TYPES.includes(row.mime_type)
    ? { type: 'image', source }
    : { type: 'document', source, title: row.filename };
}

const NOT_IN_RESULTS = 'a result has text and images alone';

/** Replaces a text that would be misread. */
function notUtf8({ id, filename, mime_type: type, size }: FileRow): TextBlock {
  const text = `[file ${filename} (${type}, ${size} bytes) left out: its text is not UTF-8. Its id is ${id}.]`;
  return { type: 'text', text };
}

/** Returns undefined if it was just deleted. */
async function read(context: Filling, row: FileRow): Promise<Buffer | undefined> {
  const stream = await openContent(context, row).catch((error: unknown) => {
    if (error instanceof Error && 'status' in error && error.status === 404) return undefined;
    throw error;
  });
  return (
    stream &&
    buffer(stream).catch((error: unknown) => {
      throw contentBroken(error);
    })
  );
}
