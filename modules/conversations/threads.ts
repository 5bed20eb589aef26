/** Threads as the API shows and changes them, of the caller's workspace alone. */
import type { Caller } from '../../core/caller.ts';
import { erased, notFound } from '../../core/errors.ts';
import { findAgent } from '../../db/agents.ts';
import type { Tx } from '../../db/database.ts';
import { findThread, listThreads, updateThread, type ThreadChange, type ThreadView } from '../../db/threads.ts';

export type { ThreadView };

/** The thread, of the caller's workspace. Throws 404. */
export async function requireThread(tx: Tx, caller: Pick<Caller, 'workspaceId'>, id: string): Promise<ThreadView> {
  const thread = await findThread(tx, id);
  if (thread?.workspace_id !== caller.workspaceId) throw notFound('The thread');
  return thread;
}

/** A page of threads, newest first. Throws 404 for an agent that there is not. */
export async function readThreads(
  tx: Tx,
  caller: Caller,
  filter: { agentId?: string | undefined; before?: string | undefined; limit: number },
): Promise<ThreadView[]> {
  const { agentId } = filter;
  if (agentId !== undefined && !(await findAgent(tx, agentId, caller.workspaceId))) throw notFound('The agent');
  return listThreads(tx, { ...filter, workspaceId: caller.workspaceId });
}

/** Changes title and extras, each as a whole. Throws 404, and 409 for a thread that is erased. */
export async function changeThread(
  tx: Tx,
  caller: Caller,
  { id, ...change }: ThreadChange & { id: string },
): Promise<ThreadView> {
  await requireThread(tx, caller, id);
  if (!(await updateThread(tx, id, change))) throw erased('The thread');
  return requireThread(tx, caller, id);
}
