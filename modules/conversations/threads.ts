/** Reads and changes threads for the API, only in the caller's workspace. */
import type { Caller } from '../../core/caller.ts';
import { conflict, erased, notFound } from '../../core/errors.ts';
import { hasScope } from '../../core/scopes.ts';
import { findAgent } from '../../db/agents.ts';
import type { Tx } from '../../db/database.ts';
import type { TurnOfThread } from '../../db/conversations.ts';
import { findByExternalId, lockExternalId, setExternalId } from '../../db/external-ids.ts';
import {
  findThread,
  listThreads,
  updateThread,
  type FoundThread,
  type ThreadChange,
  type ThreadView,
} from '../../db/threads.ts';

export type { ThreadView };

/** A thread of the caller's workspace. Throws 404. */
export async function requireThread(tx: Tx, caller: Pick<Caller, 'workspaceId'>, id: string): Promise<FoundThread> {
  const thread = await findThread(tx, id);
  if (thread?.workspace_id !== caller.workspaceId) throw notFound('The thread');
  return thread;
}

/** The caller's key, if of other threads than this one it may read only those on which it has asked for a turn. */
export function keyToAsk({ scopes, keyId, boundThreadId }: Caller, threadId: string): string | undefined {
  return hasScope(scopes, 'runs:read') || boundThreadId === threadId ? undefined : keyId;
}

/** The turn of that number in the run of that place on the thread that is so many forks back. */
export type TurnKey = [place: number, number: number, forks?: number | undefined];

/** Where the page behind a turn of a thread's conversation continues. */
export function keyOfTurn({ place, number, forks }: TurnOfThread): TurnKey {
  return forks > 0 ? [place, number, forks] : [place, number];
}

/** A page of threads, newest first. Throws 404 for an unknown agent. */
export async function readThreads(
  tx: Tx,
  caller: Caller,
  filter: Omit<Parameters<typeof listThreads>[1], 'workspaceId'>,
): Promise<ThreadView[]> {
  const { agentId } = filter;
  if (agentId !== undefined && !(await findAgent(tx, agentId, caller.workspaceId))) throw notFound('The agent');
  return listThreads(tx, { ...filter, workspaceId: caller.workspaceId });
}

/** Replaces the given fields. Throws 404, and 409 for an erased thread or a name already taken. */
export async function changeThread(
  tx: Tx,
  caller: Caller,
  { id, externalId, ...change }: ThreadChange & { id: string; externalId?: string | null | undefined },
): Promise<ThreadView> {
  await requireThread(tx, caller, id);
  if (!(await updateThread(tx, id, change))) throw erased('The thread');
  if (externalId !== undefined) await renameThread(tx, caller, { id, externalId });
  return requireThread(tx, caller, id);
}

/** The id of the workspace's thread with this external id. */
export function findThreadId(tx: Tx, { workspaceId }: Caller, externalId: string): Promise<string | undefined> {
  return findByExternalId(tx, 'threads', { workspaceId, externalId });
}

/** Like `findThreadId`; throws 404. */
export async function requireThreadId(tx: Tx, caller: Caller, externalId: string): Promise<string> {
  const id = await findThreadId(tx, caller, externalId);
  if (id === undefined) throw notFound(`The thread "ext:${externalId}"`);
  return id;
}

async function renameThread(
  tx: Tx,
  { workspaceId }: Caller,
  { id, externalId }: { id: string; externalId: string | null },
): Promise<void> {
  if (externalId !== null) {
    await lockExternalId(tx, workspaceId, externalId);
    const holder = await findByExternalId(tx, 'threads', { workspaceId, externalId });
    if (holder !== undefined && holder !== id) {
      throw conflict(`There is already a thread with the external_id "${externalId}".`, { thread_id: holder });
    }
  }
  await setExternalId(tx, 'threads', { id, externalId });
}
