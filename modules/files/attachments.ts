/** Attachments of a message: contents become files before the message is written, existing files are checked. */
import { Readable } from 'node:stream';
import type { Attachment, FileBlock } from '../../core/content.ts';
import { DroverError, impossible } from '../../core/errors.ts';
import { faultOfFile, isTextType } from '../../core/file-types.ts';
import { UPLOAD_TRUST } from '../../core/origin.ts';
import { LIMITS } from '../../core/limits.ts';
import type { Tx } from '../../db/database.ts';
import { dropUses, findFiles, deleteFiles, noteUses, type FileRow } from '../../db/files.ts';
import type { FilesTaken } from '../../llm/provider.ts';
import { storeAway, type FileContext } from './content.ts';
import { discard, keepFile, writeContent, type StoredContent } from './store-file.ts';

/** An attachment as sent by a client. */
export type GivenAttachment =
  | Exclude<Attachment, FileBlock>
  | { type: 'file'; file_id: string }
  | {
      type: 'file';
      source: { type: 'base64'; media_type: string; data: string };
      filename?: string | undefined;
    };

/** The run that gets them. */
interface AttachTo {
  tenantId: string;
  workspaceId: string;
  runId: string;
  threadId?: string | undefined;
  /** Whether this request creates the run. */
  isNew: boolean;
  /** What the run's model accepts. */
  taken: FilesTaken;
}

/**
 * Does `work` with attachments whose contents became file ids. If it is refused, or an earlier request did it, the new
 * files are deleted; if its outcome is unknown, maintenance finds files without a run. Throws 422 for a missing file, a
 * type that the model does not accept, text that is not UTF-8, or one too large for the model; else as `writeContent`.
 */
export async function withAttachments<T extends { replayed: boolean }>(
  context: FileContext,
  { to, given }: { to: AttachTo; given: readonly GivenAttachment[] },
  work: (attachments: Attachment[]) => Promise<T>,
): Promise<T> {
  const taken = await takeFiles(context, to, given);
  const leave = () =>
    context.db.withTenant(to.tenantId, async (tx) => {
      await deleteFiles(tx, taken.made);
      if (to.isNew) await dropUses(tx, to.runId);
    });
  try {
    const answer = await work(taken.attachments);
    if (answer.replayed) await leave();
    return answer;
  } catch (error) {
    if (error instanceof DroverError && error.status < 500) await leave();
    throw error;
  }
}

interface TakenFiles {
  attachments: Attachment[];
  /** Ids of files made from contents. */
  made: string[];
}

function takeFiles(context: FileContext, to: AttachTo, given: readonly GivenAttachment[]): Promise<TakenFiles> {
  const { tenantId } = to;
  return withContents(context, { tenantId, given }, (take) => context.db.withTenant(tenantId, (tx) => take(tx, to)));
}

/**
 * Stores contents, and does `work`, which can make files of them in its own transaction once it knows the run; contents
 * without a file are removed afterwards. Throws as `withAttachments`.
 */
export async function withContents<T>(
  context: FileContext,
  { tenantId, given, paths }: { tenantId: string; given: readonly GivenAttachment[]; paths?: Paths },
  work: (take: (tx: Tx, to: AttachTo) => Promise<TakenFiles>) => Promise<T>,
): Promise<T> {
  const contents = new Map<number, StoredContent>();
  try {
    for (const [index, each] of given.entries()) {
      const source = contentOf(each);
      if (source !== undefined) contents.set(index, await write(context, tenantId, source));
    }
    return await work((tx, to) => takeIn(tx, to, { given, contents, paths }));
  } finally {
    // Contents that files refer to stay.
    for (const content of contents.values()) await discard(context, content);
  }
}

/** Base64 to be stored as a file. */
function contentOf(given: GivenAttachment): string | undefined {
  if (given.type === 'text' || 'file_id' in given || given.source.type !== 'base64') return undefined;
  return given.source.data;
}

async function write(context: FileContext, tenantId: string, base64: string): Promise<StoredContent> {
  const source = Readable.from([Buffer.from(base64, 'base64')]);
  return writeContent(context, tenantId, { source, signal: new AbortController().signal }).catch((error: unknown) => {
    throw storeAway(error);
  });
}

/** The attachments' paths in the request; by default the API's. */
type Paths = readonly string[] | undefined;

interface Given {
  given: readonly GivenAttachment[];
  contents: ReadonlyMap<number, StoredContent>;
  paths: Paths;
}

async function takeIn(tx: Tx, to: AttachTo, { given, contents, paths }: Given): Promise<TakenFiles> {
  const named = given.flatMap((each) => ('file_id' in each ? [each.file_id] : []));
  const found = new Map((await findFiles(tx, named, to.workspaceId)).map((row) => [row.id, row]));
  const made: string[] = [];
  const attachments: Attachment[] = [];
  const used = new Map<number, string>();
  let bytes = 0;
  const refuse = (index: number, message: string): DroverError => {
    const path = paths?.[index] ?? `body.input.attachments.${index}`;
    return impossible(`${path} ${message}.`, [{ path, message }]);
  };
  for (const [index, each] of given.entries()) {
    const content = contents.get(index);
    const row = content
      ? await keep(tx, to, { each, content })
      : 'file_id' in each
        ? found.get(each.file_id)
        : undefined;
    if (!row) {
      if ('file_id' in each) throw refuse(index, UNKNOWN);
      attachments.push(each as Attachment);
      continue;
    }
    if (content) made.push(row.id);
    bytes += row.size;
    const fault = faultOfAttached(row, to.taken) ?? (bytes > LIMITS.attachedBytes ? TOO_MUCH : undefined);
    if (fault !== undefined) throw refuse(index, fault);
    used.set(index, row.id);
    attachments.push({ ...fileBlockOf(row), ...(row.trust === 'untrusted' && { trust: row.trust }) });
  }
  const noted = await noteUses(tx, { tenantId: to.tenantId, runId: to.runId, fileIds: [...used.values()] });
  for (const [index, id] of used) if (!noted.includes(id)) throw refuse(index, UNKNOWN);
  return { attachments, made };
}

export const UNKNOWN = 'names no file';
export const TOO_MUCH = `is too much: the files of a message may have ${LIMITS.attachedBytes} bytes together`;

/** Why a message for a model that takes these cannot have a file; undefined if it can. */
export function faultOfAttached(row: FileRow, taken: FilesTaken): string | undefined {
  return faultOfFile(row, taken) ?? faultOfText(row);
}

/** A file as a message holds it. */
export function fileBlockOf({ id: file_id, mime_type: media_type, filename, size, pages }: FileRow): FileBlock {
  return { type: 'file', file_id, media_type, filename, size, ...(pages !== null && { pages }) };
}

/** Models are shown text as UTF-8: they would misread other encodings. */
function faultOfText({ mime_type: type, is_utf8: isUtf8 }: FileRow): string | undefined {
  return isUtf8 === false && isTextType(type) ? `is of the type ${type}, and its text is not UTF-8` : undefined;
}

function keep(
  tx: Tx,
  { workspaceId, runId, threadId }: AttachTo,
  { each, content }: { each: GivenAttachment; content: StoredContent },
): Promise<FileRow> {
  const mimeType = 'source' in each && each.source.type === 'base64' ? each.source.media_type : undefined;
  const filename = 'filename' in each ? each.filename : undefined;
  const of = { workspaceId, runId, threadId, filename, mimeType };
  return keepFile(tx, content, { ...of, origin: 'user', trust: UPLOAD_TRUST });
}
