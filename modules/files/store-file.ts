/**
 * Stores contents. An object is named in the database before its first byte, written under that name, and referred to
 * only once complete: an interruption leaves an object for maintenance to find, never a file without content.
 */
import { createHash } from 'node:crypto';
import { Transform, type Readable } from 'node:stream';
import { PDF_TYPE, SIGNATURE_BYTES, cleanFilename, typeOfFile } from '../../core/file-types.ts';
import { DroverError, tooLarge, unavailable } from '../../core/errors.ts';
import { LIMITS } from '../../core/limits.ts';
import type { Trust } from '../../core/origin.ts';
import type { Tx } from '../../db/database.ts';
import {
  discardContent,
  findContent,
  insertContent,
  insertFile,
  keepContent,
  readFileLimits,
  replaceContent,
  type FileOrigin,
  type FileRow,
} from '../../db/files.ts';
import { countPdfPages } from '../../lib/count-pdf-pages.ts';
import type { FileStore } from '../../lib/file-store.ts';
import { newId } from '../../lib/new-id.ts';
import { keyOf, requireStore, type FileContext } from './content.ts';
import { awaitShortly, sweepContent } from './sweep-files.ts';

/** A stored content without a reference yet. */
export interface StoredContent {
  id: string;
  tenantId: string;
  sha256: string;
  size: number;
  /** Its first bytes. */
  head: Uint8Array;
  /** Whether the part that a model would see is UTF-8 text. */
  isUtf8: boolean;
  /** For a PDF, if they can be counted. */
  pages: number | undefined;
  /** The tenant's limit for all contents together, in bytes. */
  tenantBytes: number;
}

/**
 * Writes a content. Throws 413 if it exceeds the tenant's file size; 503 without a store. Room is checked only after it
 * is written, since a content that the tenant already has needs none. The caller must then call `keepFile` or
 * `discard`.
 */
export async function writeContent(
  context: FileContext,
  tenantId: string,
  { source, signal }: { source: Readable; signal: AbortSignal },
): Promise<StoredContent> {
  const store = requireStore(context);
  const id = newId();
  const limits = await context.db.withTenant(tenantId, async (tx) => {
    const found = await readFileLimits(tx, {
      fileBytes: LIMITS.fileBytes,
      tenantBytes: LIMITS.tenantFileBytes,
    });
    await insertContent(tx, { id, tenantId });
    return found;
  });
  const meter = measure(limits.fileBytes);
  source.once('error', meter.breakOff);
  source.pipe(meter.stream);
  try {
    await store.write(keyOf({ id, tenantId }), meter.stream, signal);
    const content = { id, tenantId, ...meter.result(), tenantBytes: limits.tenantBytes };
    await replaceLost(context, store, content);
    return content;
  } catch (error) {
    await discard(context, { id, tenantId });
    throw signal.aborted ? signal.reason : (meter.fault() ?? error);
  }
}

/** If the store has lost what the tenant's files with the same bytes refer to, they get this content: it was there, too. */
async function replaceLost({ db, log }: FileContext, store: FileStore, content: StoredContent): Promise<void> {
  const { tenantId, sha256 } = content;
  const known = await db.withTenant(tenantId, (tx) => findContent(tx, sha256));
  // A store that cannot tell has not lost it.
  if (known === undefined || (await store.has(keyOf({ id: known, tenantId })).catch(() => true))) return;
  await db.withTenant(tenantId, (tx) => replaceContent(tx, known, content));
  log.warn({ content: known, by: content.id }, 'a content that the file store has lost was uploaded again');
}

interface NewFile {
  workspaceId: string;
  threadId?: string | undefined;
  runId?: string | undefined;
  filename: string | undefined;
  /** The type declared by the sender. */
  mimeType: string | undefined;
  origin: FileOrigin;
  trust: Trust;
}

/** Makes a file of a written content, in the caller's transaction. Throws 413 if the tenant has no room left. */
export async function keepFile(tx: Tx, content: StoredContent, file: NewFile): Promise<FileRow> {
  const { tenantId, sha256, size, head, isUtf8, pages } = content;
  const kept = await keepContent(tx, content, content.tenantBytes);
  if (kept === 'full') throw tenantFull(content.tenantBytes);
  if (kept === 'swept') throw unavailable('The upload took too long; it may be sent again.');
  const filename = cleanFilename(file.filename, LIMITS.filenameChars);
  const mimeType = typeOfFile({ head, declared: file.mimeType, filename });
  const of = { tenantId, contentId: kept.id, sha256, size, isUtf8, ...(mimeType === PDF_TYPE && { pages }) };
  return insertFile(tx, { ...file, ...of, id: newId(), filename, mimeType });
}

/** Removes a content that no file uses, as another has it already or none was made; a failure is left to maintenance. */
export async function discard(context: FileContext, content: { id: string; tenantId: string }): Promise<void> {
  try {
    await context.db.withTenant(content.tenantId, (tx) => discardContent(tx, content.id));
    await awaitShortly(context, sweepContent(context, { tenant_id: content.tenantId, id: content.id }));
  } catch (error) {
    context.log.warn({ err: error, content: content.id }, 'a content that is not kept is left to maintenance');
  }
}

function tenantFull(bytes: number): DroverError {
  return new DroverError('quota-exceeded', 413, `The files of the tenant may have ${bytes} bytes in all.`);
}

interface Meter {
  stream: Transform;
  result: () => Pick<StoredContent, 'sha256' | 'size' | 'head' | 'isUtf8' | 'pages'>;
  /** Breaks off with the content's error. */
  breakOff: (error: Error) => void;
  /** Why it stopped the content, or the content's own error; undefined if the store failed. */
  fault: () => Error | undefined;
}

/** Passes a content of at most `maxBytes` through, counted, hashed and inspected. */
function measure(maxBytes: number): Meter {
  const hash = createHash('sha256');
  const text = readUtf8();
  const pdf = countPdfPages();
  let head = Buffer.alloc(0);
  let size = 0;
  let fault: Error | undefined;
  const stream = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      size += chunk.length;
      if (size > maxBytes) {
        fault = tooLarge(`The file is larger than ${maxBytes} bytes.`);
        done(fault);
        return;
      }
      if (head.length < SIGNATURE_BYTES) head = Buffer.concat([head, chunk]).subarray(0, SIGNATURE_BYTES);
      hash.update(chunk);
      if (size <= LIMITS.attachedTextBytes) text.read(chunk);
      pdf.read(chunk);
      done(null, chunk);
    },
  });
  // The writer gets the error; without any listener it would end the process.
  stream.on('error', () => undefined);
  const breakOff = (error: Error) => {
    fault = error;
    stream.destroy(error);
  };
  const result = () => ({
    sha256: hash.digest('hex'),
    size,
    head,
    isUtf8: text.isUtf8({ isWhole: size <= LIMITS.attachedTextBytes }),
    pages: pdf.count(),
  });
  return { stream, result, breakOff, fault: () => fault };
}

/** Checks chunk by chunk whether bytes are UTF-8. */
function readUtf8() {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let isUtf8 = true;
  const decode = (chunk: Uint8Array | undefined) => {
    if (!isUtf8) return;
    try {
      decoder.decode(chunk, { stream: chunk !== undefined });
    } catch {
      isUtf8 = false;
    }
  };
  return {
    read: decode,
    /** A whole text must not end in the middle of a character. */
    isUtf8: ({ isWhole }: { isWhole: boolean }) => {
      if (isWhole) decode(undefined);
      return isUtf8;
    },
  };
}
