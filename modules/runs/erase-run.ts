/** Erases what was said in runs; what is left is when they were, what they cost, and that they are erased. */
import { eraseEvent } from '../../core/erasure.ts';
import { DroverError, notFound } from '../../core/errors.ts';
import { eraseRows, eraseThreadRow, findDependents, holdAnswers, listUnerasedRuns } from '../../db/erasure.ts';
import { findRunRow, listBelowIds, lockThread } from '../../db/runs.ts';
import type { Caller } from '../../core/caller.ts';
import type { Context } from '../governance/context.ts';
import { recordAudit } from '../audit/record-audit.ts';
import { sweepTenant } from '../files/sweep-files.ts';
import { announceAppended, appendIn } from '../run-log/append-to-run.ts';
import { cancelUnlessEnded } from './end-run.ts';

interface Erasure {
  id: string;
  /** Erases the runs that stand on it, too. */
  dependents: boolean;
}

/**
 * Erases a run with all that stands below it, cancelled first where it has not ended. Answers false if it was erased already. Throws 409 with the runs that
 * stand on its messages, unless they are to be erased too. Each run is a transaction: an erasure that was broken off goes on
 * where it is asked for again.
 */
export async function eraseRun(context: Context, caller: Caller, { id, dependents }: Erasure): Promise<boolean> {
  const { found, below } = await context.db.withTenant(caller.tenantId, async (tx) => {
    const children = await listBelowIds(tx, id);
    return { found: await findDependents(tx, [id, ...children]), below: children };
  });
  if (found.length > 0 && !dependents) throw hasDependents('run', found);
  // From above: a child that is cancelled by itself would be tried again.
  await cancelUnlessEnded(context, { tenantId: caller.tenantId, runId: id, by: caller });
  return eraseAll(context, caller, [...found.toReversed(), ...below.toReversed(), id]);
}

/** Erases a thread with all its runs; no other run starts on it. Answers and throws as `eraseRun` does; 404 too. */
export async function eraseThread(
  context: Context,
  caller: Caller,
  { id, dependents }: Erasure,
): Promise<{ isNew: boolean; erasedAt: Date }> {
  const { erasedAt, runs, wasMarked } = await context.db.withTenant(caller.tenantId, async (tx) => {
    const thread = await lockThread(tx, id);
    if (!thread || thread.workspace_id !== caller.workspaceId) throw notFound('The thread');
    const own = await listUnerasedRuns(tx, id);
    const below: string[] = [];
    for (const run of own) below.push(...(await listBelowIds(tx, run)));
    const others = await findDependents(tx, [...own, ...below]);
    if (others.length > 0 && !dependents) throw hasDependents('thread', others);
    const at = await eraseThreadRow(tx, id);
    if (!at) throw new Error('a thread that is locked is not there');
    if (!thread.erased_at) await recordAudit(tx, caller, { action: 'thread.erased', target: ['thread', id] });
    return {
      erasedAt: at,
      runs: [...others.toReversed(), ...below.toReversed(), ...own],
      wasMarked: thread.erased_at !== null,
    };
  });
  // From above: a child that is cancelled by itself would be tried again.
  for (const run of runs.toReversed())
    await cancelUnlessEnded(context, { tenantId: caller.tenantId, runId: run, by: caller });
  const any = await eraseAll(context, caller, runs);
  await sweepTenant(context, caller.tenantId);
  return { isNew: any || !wasMarked, erasedAt };
}

/** One after the other, in this order: nothing that is left stands on what is gone. Answers whether any was not erased yet. */
async function eraseAll(context: Context, caller: Caller, ids: readonly string[]): Promise<boolean> {
  let any = false;
  for (const id of ids) any = (await eraseOne(context, caller, id)) || any;
  return any;
}

async function eraseOne(context: Context, caller: Caller, runId: string): Promise<boolean> {
  const ref = { tenantId: caller.tenantId, runId };
  await cancelUnlessEnded(context, { ...ref, by: caller });
  const appended = await context.db.withTenant(caller.tenantId, async (tx) => {
    await holdAnswers(tx, runId);
    // The thread before its run, as whoever begins another run on it.
    const { thread_id: threadId } = (await findRunRow(tx, runId)) ?? {};
    if (threadId !== undefined) await lockThread(tx, threadId);
    const done = await appendIn(tx, ref, async (run) => {
      if (run.erased_at) return null;
      const dependents = await findDependents(tx, [runId]);
      if (dependents.length > 0) throw hasDependents('run', dependents);
      await recordAudit(tx, caller, { action: 'run.erased', target: ['run', runId] });
      return { events: [{ type: 'run.erased', actor: 'user', payload: { requested_by: caller.keyId } }] };
    });
    if (done) await eraseRows(tx, runId, eraseEvent);
    return done;
  });
  // What this process remembers of the run is forgotten; others hold it no longer than what they drive.
  context.runCache.take(runId);
  if (appended) announceAppended(context, { ...appended, runId });
  await sweepTenant(context, caller.tenantId);
  return appended !== null;
}

const MOST_NAMED = 10;

function hasDependents(what: 'run' | 'thread', ids: readonly string[]): DroverError {
  const named = ids.slice(0, MOST_NAMED).join(', ') + (ids.length > MOST_NAMED ? ', …' : '');
  const detail = `Other runs stand on the messages of the ${what} (${named}); ?dependents=true erases them too.`;
  return new DroverError('has_dependents', 409, detail, { extra: { run_ids: ids } });
}
