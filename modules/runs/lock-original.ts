import { erased, notFound } from '../../core/errors.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { Tx } from '../../db/database.ts';
import { isAnyBeingErased } from '../../db/erasures.ts';
import { lockRun } from '../../db/runs.ts';
import { lockThreadsDownTo, type ThreadRow } from '../../db/threads.ts';

/**
 * Locks the run that another one repeats, and its thread: nobody erases meanwhile what the other will share. Throws 404; 409 if
 * the run is erased, or to be erased by itself, with its thread, or with a run above it.
 */
export async function lockOriginal(tx: Tx, runId: string): Promise<{ run: RunRow; thread: ThreadRow | undefined }> {
  // Locks threads before runs, as does the start of another run.
  const threads = await lockThreadsDownTo(tx, runId);
  const run = await lockRun(tx, runId);
  if (!run) throw notFound('The run');
  if (run.erased_at || (await isAnyBeingErased(tx, [runId]))) throw erased('The run');
  if (threads.some((each) => each.erased_at)) throw erased('The thread');
  return { run, thread: threads.find(({ id }) => id === run.thread_id) };
}
