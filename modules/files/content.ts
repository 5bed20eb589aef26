/** Reads contents of files. */
import type { Readable } from 'node:stream';
import { DroverError, notFound, unavailable } from '../../core/errors.ts';
import type { FileRow } from '../../db/files.ts';
import { ContentGoneError, FileStoreError, type ByteRange, type FileStore } from '../../lib/file-store.ts';
import type { ProcessContext } from '../process-context.ts';

/** What this module's functions need. */
export type FileContext = Pick<ProcessContext, 'db' | 'fileStore' | 'log'>;

/** This process's store. Throws 503 if it has none. */
export function requireStore({ fileStore }: Pick<ProcessContext, 'fileStore'>): FileStore {
  if (fileStore) return fileStore;
  throw new DroverError('files-not-configured', 503, 'Files need a place: DROVER_FILES_URL is not set.');
}

/** A content's key in the store, in a folder per tenant. */
export function keyOf(content: { tenantId: string; id: string }): string {
  return `${content.tenantId}/${content.id}`;
}

/** A file's content, or a part of it. Throws 404 if it was just deleted, 503 if the store is away. */
export async function openContent(
  context: Pick<ProcessContext, 'fileStore'>,
  file: Pick<FileRow, 'tenant_id' | 'content_id'>,
  range?: ByteRange,
): Promise<Readable> {
  const store = requireStore(context);
  try {
    return await store.read(keyOf({ tenantId: file.tenant_id, id: file.content_id }), range);
  } catch (error) {
    if (error instanceof ContentGoneError) throw notFound('The content of this file');
    throw storeAway(error);
  }
}

/** Turns a store's error into a 503; other errors stay as they are. */
export function storeAway(error: unknown): unknown {
  if (!(error instanceof FileStoreError)) return error;
  if (error.isFull) return unavailable('The file store has no room left; the request may be sent again.', error);
  return unavailable('The file store is away; the request may be sent again.', error);
}

/** The 503 for a content that broke off while being read. */
export function contentBroken(error: unknown): unknown {
  return unavailable('The file store went away while a content was read.', error);
}
