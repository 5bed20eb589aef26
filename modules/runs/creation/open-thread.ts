import { conflict } from '../../../core/errors.ts';
import type { RunRow } from '../../../db/claim-run.ts';
import type { Tx } from '../../../db/database.ts';
import { findRunRow } from '../../../db/runs.ts';
import type { ThreadRow } from '../../../db/threads.ts';
import { isSessionDeleted } from '../../../db/sessions.ts';

/** The last run on a locked thread. Throws 409 if the thread takes no more runs: its session was deleted. */
export async function lastOfOpenThread(tx: Tx, { id, head_run_id: head }: ThreadRow): Promise<RunRow | undefined> {
  const [isDeleted, last] = await Promise.all([
    isSessionDeleted(tx, id),
    head === null ? undefined : findRunRow(tx, head),
  ]);
  if (!isDeleted) return last;
  throw conflict('The thread is that of a session that was deleted; start another one.', { session_id: id });
}
