/** The bytes of a file. */
import type { Readable } from 'node:stream';
import { DroverError, notFound, unavailable } from '../../core/errors.ts';
import type { FileRow } from '../../db/files.ts';
import { ContentGoneError, FileStoreError, type ByteRange, type FileStore } from '../../lib/file-store.ts';
import type { ProcessContext } from '../process-context.ts';

/** What the acts of this module work with. */
export type FileContext = Pick<ProcessContext, 'db' | 'fileStore' | 'log'>;

/** The store of this process. Throws 503 where it was given none. */
export function requireStore({ fileStore }: Pick<ProcessContext, 'fileStore'>): FileStore {
  if (fileStore) return fileStore;
  throw new DroverError('files-not-configured', 503, 'Files need a place: DROVER_FILES_URL is not set.');
}

/** The name of a content in the store: a folder a tenant. */
export function keyOf(content: { tenantId: string; id: string }): string {
  return `${content.tenantId}/${content.id}`;
}

/** A file's content, or a part of it. Throws 404 where it was deleted a moment ago, 503 where the store is away. */
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

/** The answer to whoever asked for something that the store could not do; any other fault as it is. */
export function storeAway(error: unknown): unknown {
  if (!(error instanceof FileStoreError)) return error;
  return unavailable('The file store is away; the request may be sent again.', error);
}

/** The same of a content that broke off while it was read. */
export function contentBroken(error: unknown): unknown {
  return unavailable('The file store went away while a content was read.', error);
}
