/** Files as the API shows them, of the caller's workspace alone. */
import type { Caller } from '../../core/caller.ts';
import { notFound } from '../../core/errors.ts';
import type { Tx } from '../../db/database.ts';
import { findFile, listFiles, type FilePage, type FileRow } from '../../db/files.ts';

export type { FileRow };

/** A file. Throws 404. */
export async function requireFile(tx: Tx, caller: Caller, id: string): Promise<FileRow> {
  const row = await findFile(tx, id, caller.workspaceId);
  if (!row) throw noFile();
  return row;
}

/** What a request for a file is answered that there is not. */
export function noFile(): Error {
  return notFound('This file');
}

/** A page of files, newest first. */
export async function readFiles(tx: Tx, caller: Caller, page: Omit<FilePage, 'workspaceId'>): Promise<FileRow[]> {
  return listFiles(tx, { ...page, workspaceId: caller.workspaceId });
}
