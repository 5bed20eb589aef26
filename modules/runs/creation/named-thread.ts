/** Threads that a run names by what the client calls them; one that is not there yet begins with the run. */
import type { Database, Tx } from '../../../db/database.ts';
import { findByExternalId, lockExternalId, setExternalId } from '../../../db/external-ids.ts';

export interface OnThread {
  workspaceId: string;
  threadId?: string | undefined;
  /** What the client calls the thread, in place of its id. */
  threadName?: string | undefined;
}

/** With the thread's id, where one is called so already. */
export async function onNamedThread<T extends OnThread & { tenantId: string }>(db: Database, request: T): Promise<T> {
  const { tenantId, workspaceId, threadName } = request;
  if (threadName === undefined) return request;
  const threadId = await db.withTenant(tenantId, (tx) =>
    findByExternalId(tx, 'threads', { workspaceId, externalId: threadName }),
  );
  return threadId === undefined ? request : { ...request, threadId, threadName: undefined };
}

/** `write` gets the thread's id, or begins the thread: another run may have begun it since it was looked for. */
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
