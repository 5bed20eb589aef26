/** Erases the content of runs; their times and costs stay, and the fact that they are erased. */
import { eraseEvent } from '../../core/erasure.ts';
import { DroverError, notFound } from '../../core/errors.ts';
import {
  eraseRows,
  eraseThreadRow,
  findDependents,
  holdAnswers,
  holdAnswersOfThread,
  listUnerasedRuns,
} from '../../db/erasure.ts';
import { findRunRow, listBelowIds } from '../../db/runs.ts';
import { lockThread } from '../../db/threads.ts';
import type { Tx } from '../../db/database.ts';
import type { Caller } from '../../core/caller.ts';
import type { Context } from '../governance/context.ts';
import { recordAudit } from '../audit/record-audit.ts';
import { sweepTenant } from '../files/sweep-files.ts';
import { announceAppended, appendIn } from '../run-log/append-to-run.ts';
import { cancelUnlessEnded } from './end-run.ts';

interface Erasure {
  id: string;
  /** Also erases runs that share its messages. */
  dependents: boolean;
}

/**
 * Erases a run with its descendants, and cancels unfinished ones first. Returns false if all were already erased. Throws 409
 * with the runs that share its messages, unless they are to be erased too. Each run has its own transaction: an interrupted
 * erasure continues when requested again.
 */
export async function eraseRun(context: Context, caller: Caller, { id, dependents }: Erasure): Promise<boolean> {
  await context.db.withTenant(caller.tenantId, (tx) => refuseDependents(tx, 'run', { ids: [id], dependents }));
  const any = await eraseAll(context, caller, { ids: await cancelAll(context, caller, { ids: [id], dependents }) });
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
  { id, dependents }: Erasure,
): Promise<{ isNew: boolean; erasedAt: Date }> {
  const { erasedAt, own, wasMarked } = await context.db.withTenant(caller.tenantId, async (tx) => {
    await holdAnswersOfThread(tx, id);
    const thread = await lockThread(tx, id);
    if (!thread || thread.workspace_id !== caller.workspaceId) throw notFound('The thread');
    const runs = await listUnerasedRuns(tx, id);
    await refuseDependents(tx, 'thread', { ids: runs, dependents });
    const at = await eraseThreadRow(tx, id);
    if (!at) throw new Error('a thread that is locked is not there');
    if (!thread.erased_at) await recordAudit(tx, caller, { action: 'thread.erased', target: ['thread', id] });
    return { erasedAt: at, own: runs.toReversed(), wasMarked: thread.erased_at !== null };
  });
  const ids = await cancelAll(context, caller, { ids: own, dependents });
  const any = await eraseAll(context, caller, { ids, thread: id });
  await sweepTenant(context, caller.tenantId);
  return { isNew: any || !wasMarked, erasedAt };
}

/** Runs to erase, and whether to erase runs that share their messages too. */
interface Erased {
  ids: readonly string[];
  dependents: boolean;
}

/** Throws 409 with the runs that share messages with these or their descendants, unless they are to be erased too. */
async function refuseDependents(tx: Tx, what: 'run' | 'thread', { ids, dependents }: Erased): Promise<void> {
  if (dependents) return;
  const found = await findDependents(tx, [...ids, ...(await listBelowIds(tx, ids))]);
  if (found.length > 0) throw hasDependents(what, found);
}

/**
 * Cancels the runs top down, since a child cancelled alone would be retried. Returns them with all runs to be erased along,
 * each after those it stands on. Descendants are listed after the cancel, when no new ones can begin.
 */
async function cancelAll(context: Context, caller: Caller, { ids, dependents }: Erased): Promise<string[]> {
  const all: string[] = [];
  for (let found = ids; found.length > 0;) {
    for (const runId of found) await cancelUnlessEnded(context, { tenantId: caller.tenantId, runId, by: caller });
    all.push(...found);
    const known = new Set(all);
    const along = await context.db.withTenant(caller.tenantId, async (tx) => {
      const below = await listBelowIds(tx, all);
      return dependents ? [...below, ...(await findDependents(tx, [...all, ...below]))] : below;
    });
    found = along.filter((id) => !known.has(id));
  }
  return all;
}

/** Erases the runs one by one, last first, so that no remaining run stands on an erased one. Returns whether any was not erased before. */
async function eraseAll(
  context: Context,
  caller: Caller,
  { ids, thread }: { ids: readonly string[]; thread?: string },
): Promise<boolean> {
  let any = false;
  for (const runId of ids.toReversed()) any = (await eraseOne(context, caller, { runId, thread })) || any;
  return any;
}

/** `thread` is one that is marked as erased and goes as a whole: no run is added to it. */
async function eraseOne(
  context: Context,
  caller: Caller,
  { runId, thread }: { runId: string; thread: string | undefined },
): Promise<boolean> {
  const ref = { tenantId: caller.tenantId, runId };
  await cancelUnlessEnded(context, { ...ref, by: caller });
  const appended = await context.db.withTenant(caller.tenantId, async (tx) => {
    await holdAnswers(tx, runId);
    // Locks the thread before its run, as does the start of another run.
    const { thread_id: threadId } = (await findRunRow(tx, runId)) ?? {};
    if (threadId !== undefined) await lockThread(tx, threadId);
    const done = await appendIn(tx, ref, async (run) => {
      if (run.erased_at) return null;
      const dependents = await findDependents(tx, [runId], thread);
      if (dependents.length > 0) throw hasDependents('run', dependents);
      await recordAudit(tx, caller, { action: 'run.erased', target: ['run', runId] });
      return { events: [{ type: 'run.erased', actor: 'user', payload: { requested_by: caller.keyId } }] };
    });
    if (done) await eraseRows(tx, runId, eraseEvent);
    return done;
  });
  // Clears this process's cache; other caches expire (`cachedRunSeconds`).
  context.runCache.take(runId);
  if (appended) announceAppended(context, { ...appended, runId });
  return appended !== null;
}

const MOST_NAMED = 10;

function hasDependents(what: 'run' | 'thread', ids: readonly string[]): DroverError {
  const named = ids.slice(0, MOST_NAMED).join(', ') + (ids.length > MOST_NAMED ? ', …' : '');
  const detail = `Other runs stand on the messages of the ${what} (${named}); ?dependents=true erases them too.`;
  return new DroverError('has_dependents', 409, detail, { extra: { run_ids: ids } });
}
