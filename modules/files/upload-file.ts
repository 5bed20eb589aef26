import type { Readable } from 'node:stream';
import type { Caller } from '../../core/caller.ts';
import { erased, notFound } from '../../core/errors.ts';
import { checkMayLoosen } from '../../core/loosening.ts';
import { UPLOAD_TRUST, type Trust } from '../../core/origin.ts';
import type { Tx } from '../../db/database.ts';
import type { FileRow } from '../../db/files.ts';
import { lockThread } from '../../db/threads.ts';
import { idempotently, type IdempotentAnswer, type IdempotentRequest } from '../tenants/idempotency.ts';
import { recordAudit } from '../audit/record-audit.ts';
import { storeAway, type FileContext } from './content.ts';
import { discard, keepFile, writeContent } from './store-file.ts';

/** An incoming file. */
export interface Upload {
  source: Readable;
  filename: string | undefined;
  mimeType: string | undefined;
  signal: AbortSignal;
  /** Resolves at the end of the request with the other fields; rejects if the request is malformed. */
  fields: Promise<{ thread_id?: string | undefined; trust?: Trust | undefined }>;
}

/**
 * Stores a client's file. Throws 403 if the caller may not vouch for it, 404 for an unknown thread, 409 for an erased
 * one; else as `writeContent`.
 */
export async function uploadFile<T>(
  context: FileContext,
  by: { caller: Caller; idempotency: IdempotentRequest; present: (row: FileRow) => T },
  upload: Upload,
): Promise<IdempotentAnswer<T>> {
  const { caller, idempotency, present } = by;
  const { source, signal, filename, mimeType } = upload;
  const content = await writeContent(context, caller.tenantId, { source, signal }).catch((error: unknown) => {
    throw storeAway(error);
  });
  try {
    const { thread_id: threadId, trust = UPLOAD_TRUST } = await upload.fields;
    checkMayLoosen(caller, trust === 'trusted' ? ['trust'] : []);
    const { sha256 } = content;
    const body = {
      ...bodyOf(idempotency),
      filename,
      mimeType,
      threadId,
      sha256,
      ...(trust === 'trusted' && { trust }),
    };
    return await idempotently<T>(context, { ...idempotency, body }, async (tx) => {
      if (threadId !== undefined) await requireThread(tx, caller, threadId);
      const { workspaceId } = caller;
      const of = { workspaceId, threadId, filename, mimeType };
      const row = await keepFile(tx, content, { ...of, origin: 'user', trust });
      const details = { size: row.size, ...(trust === 'trusted' && { trust }) };
      await recordAudit(tx, caller, { action: 'file.stored', target: ['file', row.id], details });
      return { status: 201, body: present(row) };
    });
  } finally {
    // Does nothing if a file has it by now.
    await discard(context, content);
  }
}

function bodyOf({ body }: IdempotentRequest): object {
  return typeof body === 'object' && body !== null ? body : {};
}

/** Locks the thread, so that it is not erased before the file exists. */
async function requireThread(tx: Tx, { workspaceId }: Caller, threadId: string): Promise<void> {
  const thread = await lockThread(tx, threadId);
  if (thread?.workspace_id !== workspaceId) throw notFound('The thread');
  if (thread.erased_at) throw erased('The thread');
}
