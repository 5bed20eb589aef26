/** The work of an erasure that is written down (`erasures`): whoever stops in between, the next one goes on. */
import { eraseEvent } from '../../../core/erasure.ts';
import { DroverError } from '../../../core/errors.ts';
import type { Tx } from '../../../db/database.ts';
import { dateErasedThread, eraseRows, findDependents, holdAnswers, listUnerasedRuns } from '../../../db/erasure.ts';
import { deleteErasure, deleteRefusedErasure, touchErasure, type ErasureRow } from '../../../db/erasures.ts';
import { findRunRefs, findRunRow, findUnfinished, listBelowIds } from '../../../db/runs.ts';
import { lockThread } from '../../../db/threads.ts';
import { recordAudit, type AuditedBy } from '../../audit/record-audit.ts';
import type { Context } from '../../governance/context.ts';
import { announceAppended, appendIn } from '../../run-log/append-to-run.ts';
import { cancelUnlessEnded } from '../end-run.ts';

export interface Erasure extends Pick<ErasureRow, 'kind' | 'id' | 'dependents'> {
  by: AuditedBy;
}

/** Of a long thread, runs that are looked at together: a turn of maintenance erases more, and does not look at many in vain. */
const RUNS_AT_A_TIME = 20;

/**
 * Cancels and erases what is left, run by run, each in its own transaction, and removes the erasure in the last one. Returns
 * whether that is done, and whether any run was erased by this call. After `withinMs` it begins no run but its first. Throws 409
 * with the runs that share messages, if they are not to be erased too.
 */
export async function carryOutErasure(
  context: Context,
  erasure: Erasure,
  withinMs = Number.POSITIVE_INFINITY,
): Promise<{ isDone: boolean; any: boolean }> {
  const endsAtMs = performance.now() + withinMs;
  let any = false;
  for (;;) {
    for await (const isNew of eraseAll(context, erasure)) {
      any ||= isNew;
      if (performance.now() > endsAtMs) return { isDone: false, any };
    }
    if (await endErasure(context, erasure)) return { isDone: true, any };
  }
}

/** Erases what is left, last first; tells of each run whether it was erased just now. */
async function* eraseAll(context: Context, erasure: Erasure): AsyncGenerator<boolean> {
  const own = await context.db.withTenant(erasure.by.tenantId, (tx) => listOwn(tx, erasure));
  for (let at = 0; at < own.length; at += RUNS_AT_A_TIME) {
    const runs = await cancelAll(context, erasure, own.slice(at, at + RUNS_AT_A_TIME).toReversed());
    for (const runId of runs.toReversed()) yield await eraseOne(context, erasure, runId);
  }
}

/** The runs that the erasure is about, each before those it stands on. */
async function listOwn(tx: Tx, { kind, id }: Erasure): Promise<string[]> {
  return kind === 'run' ? [id] : listUnerasedRuns(tx, id);
}

/**
 * Cancels runs top down, since a child cancelled alone would be retried. Returns those that are not erased, with all runs to be
 * erased along, each after those it stands on. Descendants are listed after the cancel, when no new ones can begin.
 */
async function cancelAll(context: Context, erasure: Erasure, own: readonly string[]): Promise<string[]> {
  const { db } = context;
  const { dependents, by } = erasure;
  const { tenantId } = by;
  const all: string[] = [];
  for (let found = own; found.length > 0;) {
    const unfinished = await db.withTenant(tenantId, (tx) => findUnfinished(tx, found));
    for (const runId of found) if (unfinished.has(runId)) await cancelUnlessEnded(context, { tenantId, runId, by });
    all.push(...found);
    const known = new Set(all);
    const along = await db.withTenant(tenantId, async (tx) => {
      const below = await listBelowIds(tx, all);
      const others = dependents ? await findDependents(tx, [...all, ...below], goingThread(erasure)) : [];
      await touchErasure(tx, erasure);
      return [...below, ...others];
    });
    found = along.filter((each) => !known.has(each));
  }
  const refs = await db.withTenant(tenantId, (tx) => findRunRefs(tx, all));
  const erased = new Set(refs.flatMap((ref) => (ref.erased_at ? [ref.id] : [])));
  return all.filter((each) => !erased.has(each));
}

/** The thread to which no run is added, since it goes as a whole. */
export function goingThread({ kind, id }: Pick<Erasure, 'kind' | 'id'>): string | undefined {
  return kind === 'thread' ? id : undefined;
}

/** Erases a run, last first, so that no remaining one stands on an erased one. Returns false if it was erased before. */
async function eraseOne(context: Context, erasure: Erasure, runId: string): Promise<boolean> {
  const { by } = erasure;
  const ref = { tenantId: by.tenantId, runId };
  const erasing = context.db.withTenant(by.tenantId, async (tx) => {
    await holdAnswers(tx, runId);
    // Locks the thread before its run, as does the start of another run.
    const { thread_id: threadId } = (await findRunRow(tx, runId)) ?? {};
    if (threadId !== undefined) await lockThread(tx, threadId);
    const done = await appendIn(tx, ref, async (run) => {
      if (run.erased_at) return null;
      const dependents = await findDependents(tx, [runId], goingThread(erasure));
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
