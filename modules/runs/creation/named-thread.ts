/** Threads that runs name by the client's own names; an unknown one begins with the run. */
import type { Database, Tx } from '../../../db/database.ts';
import { findByExternalId, lockExternalId, setExternalId } from '../../../db/external-ids.ts';

export interface OnThread {
  workspaceId: string;
  threadId?: string | undefined;
  /** The client's name for the thread, in place of its id. */
  threadName?: string | undefined;
}

/** Adds the thread's id, if a thread has the name. */
export async function onNamedThread<T extends OnThread & { tenantId: string }>(db: Database, request: T): Promise<T> {
  const { tenantId, workspaceId, threadName } = request;
  if (threadName === undefined) return request;
  const threadId = await db.withTenant(tenantId, (tx) =>
    findByExternalId(tx, 'threads', { workspaceId, externalId: threadName }),
  );
  return threadId === undefined ? request : { ...request, threadId, threadName: undefined };
}

/**
 * Passes the thread's id to `write`, or names the thread that it begins. Looks again under a lock, since another run may have
 * begun it meanwhile.
 */
export async function writeOnThread<T extends OnThread, W extends { body: { thread_id: string } }>(
  tx: Tx,
  { threadName, ...request }: T,
  write: (request: Omit<T, 'threadName'>) => Promise<W>,
): Promise<W> {
  if (threadName === undefined) return write(request);
  await lockExternalId(tx, request.workspaceId, threadName);
  const { workspaceId } = request;
  const threadId = await findByExternalId(tx, 'threads', { workspaceId, externalId: threadName });
  const written = await write({ ...request, threadId });
  if (threadId === undefined)
    await setExternalId(tx, 'threads', { id: written.body.thread_id, externalId: threadName });
  return written;
}
