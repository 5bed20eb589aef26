import { conflict } from '../../../core/errors.ts';
import type { RunRow } from '../../../db/claim-run.ts';
import type { Tx } from '../../../db/database.ts';
import { findRunRow } from '../../../db/runs.ts';
import type { ThreadRow } from '../../../db/threads.ts';
import { findSessionOfThread, type SessionOfThread } from '../../../db/sessions.ts';

/** The last run on a thread, and the session whose thread it is. */
interface OpenThread {
  last: RunRow | undefined;
  session: SessionOfThread | undefined;
}

/** What a locked thread holds. Throws 409 if it takes no more runs: its session was deleted. */
export async function openThreadOf(tx: Tx, { id, head_run_id: head }: ThreadRow): Promise<OpenThread> {
  const [session, last] = await Promise.all([
    findSessionOfThread(tx, id),
    head === null ? undefined : findRunRow(tx, head),
  ]);
  if (!session || session.archived_at === null) return { session, last };
  throw conflict('The thread is that of a session that was deleted; start another one.', { session_id: id });
}
