/** Reads files for the API, of the caller's workspace alone. */
import type { Caller } from '../../core/caller.ts';
import { forbidden, notFound } from '../../core/errors.ts';
import type { Tx } from '../../db/database.ts';
import { findFile, isFileOfThread, listFiles, type FilePage, type FileRow } from '../../db/files.ts';

export type { FileRow };

/** A file. Throws 404, and 403 where the caller has a token for a thread to which it did not come. */
export async function requireFile(tx: Tx, caller: Caller, id: string): Promise<FileRow> {
  const { workspaceId, boundThreadId: threadId } = caller;
  const row = await findFile(tx, id, workspaceId);
  if (threadId !== undefined && !(row && (await isFileOfThread(tx, { id, threadId })))) throw ofNoThread();
  if (!row) throw noFile();
  return row;
}

/** The 404 for a missing file. */
export function noFile(): Error {
  return notFound('This file');
}

/** A page of files, newest first. Throws 403 where the caller has a token for a thread, and asks for more than its files. */
export async function readFiles(tx: Tx, caller: Caller, page: Omit<FilePage, 'workspaceId'>): Promise<FileRow[]> {
  const { workspaceId, boundThreadId = page.threadId } = caller;
  if (boundThreadId !== page.threadId) throw ofNoThread();
  return listFiles(tx, { ...page, workspaceId });
}

function ofNoThread(): Error {
  return forbidden('The token is for one thread, and this is not about it.');
}
