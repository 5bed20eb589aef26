/** The work of an erasure that is written down (`erasures`): whoever stops in between, the next one goes on. */
import { eraseEvent } from '../../../core/erasure.ts';
import { DroverError } from '../../../core/errors.ts';
import type { Tx } from '../../../db/database.ts';
import { dateErasedThread, eraseRows, findDependents, holdAnswers, listUnerasedRuns } from '../../../db/erasure.ts';
import { deleteErasure, deleteRefusedErasure, touchErasure, type ErasureRow } from '../../../db/erasures.ts';
import { findRunRefs, findRunRow, listBelowIds } from '../../../db/runs.ts';
import { lockThread } from '../../../db/threads.ts';
import { recordAudit, type AuditedBy } from '../../audit/record-audit.ts';
import type { Context } from '../../governance/context.ts';
import { announceAppended, appendIn } from '../../run-log/append-to-run.ts';
import { cancelUnlessEnded } from '../end-run.ts';

export interface Erasure extends Pick<ErasureRow, 'kind' | 'id' | 'dependents'> {
  by: AuditedBy;
}

/**
 * Cancels and erases what is left, run by run, each in its own transaction, and removes the erasure in the last one. Returns
 * whether that is done, and whether any run was erased by this call; begins no run after `withinMs`. Throws 409 with the runs
 * that share messages, if they are not to be erased too.
 */
export async function carryOutErasure(
  context: Context,
  erasure: Erasure,
  withinMs = Number.POSITIVE_INFINITY,
): Promise<{ isDone: boolean; any: boolean }> {
  let any = false;
  for (;;) {
    const ids = await cancelAll(context, erasure);
    const endsAtMs = performance.now() + withinMs;
    for (const runId of ids.toReversed()) {
      if (performance.now() > endsAtMs) return { isDone: false, any };
      any = (await eraseOne(context, erasure, runId)) || any;
    }
    if (await endErasure(context, erasure)) return { isDone: true, any };
  }
}

/**
 * Cancels the runs top down, since a child cancelled alone would be retried. Returns those that are not erased, with all runs
 * to be erased along, each after those it stands on. Descendants are listed after the cancel, when no new ones can begin.
 */
async function cancelAll(context: Context, erasure: Erasure): Promise<string[]> {
  const { db } = context;
  const { dependents, by } = erasure;
  const { tenantId } = by;
  const all: string[] = [];
  for (let found = await db.withTenant(tenantId, (tx) => listOwn(tx, erasure)); found.length > 0;) {
    for (const runId of found) await cancelUnlessEnded(context, { tenantId, runId, by });
    all.push(...found);
    const known = new Set(all);
    const along = await db.withTenant(tenantId, async (tx) => {
      const below = await listBelowIds(tx, all);
      return dependents ? [...below, ...(await findDependents(tx, [...all, ...below]))] : below;
    });
    found = along.filter((each) => !known.has(each));
  }
  const refs = await db.withTenant(tenantId, (tx) => findRunRefs(tx, all));
  const erased = new Set(refs.flatMap((ref) => (ref.erased_at ? [ref.id] : [])));
  return all.filter((each) => !erased.has(each));
}

/** The runs that the erasure is about, each after those it stands on. */
async function listOwn(tx: Tx, { kind, id }: Erasure): Promise<string[]> {
  return kind === 'run' ? [id] : (await listUnerasedRuns(tx, id)).toReversed();
}

/** Erases a run, last first, so that no remaining one stands on an erased one. Returns false if it was erased before. */
async function eraseOne(context: Context, erasure: Erasure, runId: string): Promise<boolean> {
  const { by } = erasure;
  const ref = { tenantId: by.tenantId, runId };
  await cancelUnlessEnded(context, { ...ref, by });
  const erasing = context.db.withTenant(by.tenantId, async (tx) => {
    await holdAnswers(tx, runId);
    // Locks the thread before its run, as does the start of another run.
    const { thread_id: threadId } = (await findRunRow(tx, runId)) ?? {};
    if (threadId !== undefined) await lockThread(tx, threadId);
    const done = await appendIn(tx, ref, async (run) => {
      if (run.erased_at) return null;
      // To a thread that goes as a whole no run is added.
      const dependents = await findDependents(tx, [runId], erasure.kind === 'thread' ? erasure.id : undefined);
      if (dependents.length > 0) throw hasDependents('run', dependents);
      await recordAudit(tx, by, { action: 'run.erased', target: ['run', runId] });
      const payload = by.keyId === undefined ? {} : { requested_by: by.keyId };
      return { events: [{ type: 'run.erased', actor: 'user', payload }] };
    });
    if (done) await eraseRows(tx, runId, eraseEvent);
    // Last: nobody who holds it waits for another lock.
    await touchErasure(tx, erasure);
    return done;
  });
  const appended = await erasing.catch((error: unknown) => giveUpIfRefused(context, erasure, error));
  // Clears this process's cache; other caches expire (`cachedRunSeconds`).
  context.runCache.take(runId);
  if (appended) announceAppended(context, { ...appended, runId });
  return appended !== null;
}

/** A run's erasure that is refused is over. A thread stays marked: its erasure goes on where the dependents may go, too. */
async function giveUpIfRefused({ db }: Context, erasure: Erasure, error: unknown): Promise<never> {
  if (erasure.kind === 'run' && error instanceof DroverError && error.code === 'has_dependents') {
    await db.withTenant(erasure.by.tenantId, (tx) => deleteRefusedErasure(tx, erasure));
  }
  throw error;
}

/** Removes an erasure of which nothing is left to erase, and says so of a thread. Returns false if there is. */
async function endErasure(context: Context, erasure: Erasure): Promise<boolean> {
  return context.db.withTenant(erasure.by.tenantId, async (tx) => {
    if (erasure.kind === 'thread') return endErasureOfThread(tx, erasure);
    await deleteErasure(tx, erasure);
    return true;
  });
}

async function endErasureOfThread(tx: Tx, erasure: Erasure): Promise<boolean> {
  await lockThread(tx, erasure.id);
  if ((await listUnerasedRuns(tx, erasure.id)).length > 0) return false;
  const askedBy = await deleteErasure(tx, erasure);
  if (!askedBy) return true;
  await dateErasedThread(tx, erasure.id);
  const by = { ...askedBy, tenantId: erasure.by.tenantId } as AuditedBy;
  await recordAudit(tx, by, { action: 'thread.erased', target: ['thread', erasure.id] });
  return true;
}

const MOST_NAMED = 10;

export function hasDependents(what: 'run' | 'thread', ids: readonly string[]): DroverError {
  const named = ids.slice(0, MOST_NAMED).join(', ') + (ids.length > MOST_NAMED ? ', …' : '');
  const detail = `Other runs stand on the messages of the ${what} (${named}); ?dependents=true erases them too.`;
  return new DroverError('has_dependents', 409, detail, { extra: { run_ids: ids } });
}
