/** Erases the content of runs; their times and costs stay, and the fact that they are erased. */
import { notFound } from '../../core/errors.ts';
import { findDependents, holdAnswersOfThread, listUnerasedRuns, markThreadErased } from '../../db/erasure.ts';
import { insertErasure } from '../../db/erasures.ts';
import { listBelowIds } from '../../db/runs.ts';
import { findThread, lockThread, lockThreadsDownTo } from '../../db/threads.ts';
import type { Tx } from '../../db/database.ts';
import type { Caller } from '../../core/caller.ts';
import type { Context } from '../governance/context.ts';
import { sweepTenant } from '../files/sweep-files.ts';
import { carryOutErasure, goingThread, hasDependents, type Erasure } from './erasing/carry-out-erasure.ts';

interface ErasureRequest {
  id: string;
  /** Also erases runs that share its messages. */
  dependents: boolean;
}

/**
 * Erases a run with its descendants, and cancels unfinished ones first. Returns false if all were already erased. Throws 409
 * with the runs that share its messages, unless they are to be erased too. Each run has its own transaction: maintenance
 * finishes an interrupted erasure, and so does the same request.
 */
export async function eraseRun(context: Context, caller: Caller, request: ErasureRequest): Promise<boolean> {
  const erasure: Erasure = { ...request, kind: 'run', by: caller };
  await context.db.withTenant(caller.tenantId, async (tx) => {
    // Whoever would repeat the run, or go on from it, has done so before this look, or finds that it is to be erased.
    await lockThreadsDownTo(tx, request.id);
    await refuseDependents(tx, erasure, [request.id]);
    await writeDown(tx, caller, erasure);
  });
  const { any } = await carryOutErasure(context, erasure);
  await sweepTenant(context, caller.tenantId);
  return any;
}

/**
 * Erases a thread with all its runs; no other run can start on it. Returns when it was erased, and whether anything was erased
 * by this call. Throws as `eraseRun` does, and 404.
 */
export async function eraseThread(
  context: Context,
  caller: Caller,
  request: ErasureRequest,
): Promise<{ isNew: boolean; erasedAt: Date }> {
  const { id } = request;
  const erasure: Erasure = { ...request, kind: 'thread', by: caller };
  const wasMarked = await context.db.withTenant(caller.tenantId, async (tx) => {
    await holdAnswersOfThread(tx, id);
    const thread = await lockThread(tx, id);
    if (!thread || thread.workspace_id !== caller.workspaceId) throw notFound('The thread');
    const runs = await listUnerasedRuns(tx, id);
    await refuseDependents(tx, erasure, runs);
    await markThreadErased(tx, id);
    if (!thread.erased_at || runs.length > 0) await writeDown(tx, caller, erasure);
    return thread.erased_at !== null;
  });
  const { any } = await carryOutErasure(context, erasure);
  await sweepTenant(context, caller.tenantId);
  const thread = await context.db.withTenant(caller.tenantId, (tx) => findThread(tx, id));
  if (!thread?.erased_at) throw new Error('a thread that was erased is not there');
  return { isNew: any || !wasMarked, erasedAt: thread.erased_at };
}

/** Throws 409 with the runs that share messages with these or their descendants, unless they are to be erased too. */
async function refuseDependents(tx: Tx, erasure: Erasure, ids: readonly string[]): Promise<void> {
  if (erasure.dependents) return;
  const found = await findDependents(tx, [...ids, ...(await listBelowIds(tx, ids))], goingThread(erasure));
  if (found.length > 0) throw hasDependents(erasure.kind, found);
}

async function writeDown(tx: Tx, caller: Caller, { kind, id, dependents }: Erasure): Promise<void> {
  const { tenantId, keyId, workspaceId, isOperator, origin } = caller;
  const askedBy = { keyId, workspaceId, isOperator, origin };
  await insertErasure(tx, { kind, id, tenant_id: tenantId, dependents, asked_by: askedBy });
}
