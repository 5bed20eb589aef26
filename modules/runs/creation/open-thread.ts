import { conflict } from '../../../core/errors.ts';
import type { RunRow } from '../../../db/claim-run.ts';
import type { Tx } from '../../../db/database.ts';
import { findBeingErasedOn } from '../../../db/erasures.ts';
import { findRunRow } from '../../../db/runs.ts';
import type { ThreadRow } from '../../../db/threads.ts';
import { findSessionOfThread, type SessionOfThread } from '../../../db/sessions.ts';

/** The last run on a thread, and the session whose thread it is. */
interface OpenThread {
  last: RunRow | undefined;
  session: SessionOfThread | undefined;
}

/**
 * What a locked thread holds. Throws 409 if it takes no more runs, since its session was deleted; and while one of its runs is
 * being erased, on which another one might stand.
 */
export async function openThreadOf(tx: Tx, { id, head_run_id: head }: ThreadRow): Promise<OpenThread> {
  const [session, last, going] = await Promise.all([
    findSessionOfThread(tx, id),
    head === null ? undefined : findRunRow(tx, head),
    head === null ? undefined : findBeingErasedOn(tx, id),
  ]);
  if (going !== undefined) {
    throw conflict(`The run ${going} of the thread is being erased; begin again when it is.`, { run_id: going });
  }
  if (!session || session.archived_at === null) return { session, last };
  throw conflict('The thread is that of a session that was deleted; start another one.', { session_id: id });
}
