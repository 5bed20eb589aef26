import { conflict } from '../../../core/errors.ts';
import type { Tx } from '../../../db/database.ts';
import { isSessionDeleted } from '../../../db/sessions.ts';

/** The thread, which is locked, takes another run. Throws 409 where it is that of a session that was deleted. */
export async function requireOpenThread(tx: Tx, threadId: string): Promise<void> {
  if (await isSessionDeleted(tx, threadId)) {
    throw conflict('The thread is that of a session that was deleted; start another one.', { session_id: threadId });
  }
}
