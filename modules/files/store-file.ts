/**
 * Takes contents into the file store. An object is named in the database before its first byte, written under that name, and
 * referred to only when all of it is there: whatever ends in between leaves an object that maintenance finds, never a file
 * without its content.
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
  insertContent,
  insertFile,
  keepContent,
  readFileLimits,
  type FileOrigin,
  type FileRow,
} from '../../db/files.ts';
import { countPdfPages } from '../../lib/count-pdf-pages.ts';
import { newId } from '../../lib/new-id.ts';
import { keyOf, requireStore, type FileContext } from './content.ts';
import { sweepContent } from './sweep-files.ts';

/** A content that is in the store, and that nothing refers to yet. */
export interface StoredContent {
  id: string;
  tenantId: string;
  sha256: string;
  size: number;
  /** Its first bytes. */
  head: Uint8Array;
  /** Whether it is text in UTF-8, as far as a model would be shown it. */
  isUtf8: boolean;
  /** If it is a PDF, and where they can be counted. */
  pages: number | undefined;
  /** Of all contents of the tenant together, in bytes. */
  tenantBytes: number;
}

/**
 * Writes a content. Throws 413 for one that is larger than a file of the tenant may be; 503 where there is no store. Whether
 * there is room for it is known once it is written: one that the tenant has already takes none. Whoever gets the content keeps
 * it with `keepFile`, or calls `discard`.
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
    return { id, tenantId, ...meter.result(), tenantBytes: limits.tenantBytes };
  } catch (error) {
    await discard(context, { id, tenantId });
    throw signal.aborted ? signal.reason : (meter.fault() ?? error);
  }
}

interface NewFile {
  workspaceId: string;
  threadId?: string | undefined;
  runId?: string | undefined;
  filename: string | undefined;
  /** As its sender calls it. */
  mimeType: string | undefined;
  origin: FileOrigin;
  trust: Trust;
}

/** Makes a file of a written content, in the transaction of what it is for. Throws 413 where the tenant has no room for it any more. */
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

/** Removes a content that no file has after all, since another had it already or none was made; where that fails, maintenance does it. */
export async function discard(context: FileContext, content: { id: string; tenantId: string }): Promise<void> {
  try {
    await context.db.withTenant(content.tenantId, (tx) => discardContent(tx, content.id));
    await sweepContent(context, { tenant_id: content.tenantId, id: content.id });
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
  /** The content broke off with this. */
  breakOff: (error: Error) => void;
  /** Why it has stopped the content, or what the content broke off with; undefined where it was the store that gave up. */
  fault: () => Error | undefined;
}

/** Lets a content through, counted, digested and looked at, up to `maxBytes`. */
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
  // Whoever writes it is told; where nobody does yet, without a listener, it would end the process.
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

/** Finds out, a chunk at a time, whether bytes are UTF-8. */
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
    /** Of a whole text the last character must have ended, too. */
    isUtf8: ({ isWhole }: { isWhole: boolean }) => {
      if (isWhole) decode(undefined);
      return isUtf8;
    },
  };
}
