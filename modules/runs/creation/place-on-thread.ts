/** A new run's place on its thread. */
import type { Carried } from '../../../core/carried.ts';
import type { Compaction } from '../../../core/compaction.ts';
import { conflict, erased, notFound } from '../../../core/errors.ts';
import { isTerminal } from '../../../core/events.ts';
import { segmentsOf } from '../../../core/fork.ts';
import type { RunRow } from '../../../db/claim-run.ts';
import type { Tx } from '../../../db/database.ts';
import { findCarried, findCompaction } from '../../../db/replay.ts';
import { lastUnerasedRun } from '../../../db/runs.ts';
import { lockThread } from '../../../db/threads.ts';
import { hasUnread } from '../../../db/unread.ts';
import type { SessionOfThread } from '../../../db/sessions.ts';
import { newId } from '../../../lib/new-id.ts';
import { mustHaveAgent } from '../handing-over.ts';
import { waitingMessage, type WaitingMessage } from '../message-queue.ts';
import { openThreadOf } from './open-thread.ts';

/** What a run's conversation continues. */
type Previous = Pick<RunRow, 'lineage' | 'lineage_base' | 'length'> & {
  /** Replaces the conversation's beginning. */
  context?: Compaction | undefined;
  carried?: Carried;
  /** It holds untrusted content to which no model has answered. */
  isUnread?: boolean;
};

/** The run's number on the thread, and what it continues. */
export interface PlaceOnThread {
  place: number;
  previous: Previous | undefined;
  /** The message waiting in the run before it. */
  waiting?: WaitingMessage | undefined;
  /** The session whose thread it is. */
  session?: SessionOfThread | undefined;
  /** Whether the thread begins with it. */
  isFirst?: boolean;
}

/** The first place on a new thread. */
export const NEW_THREAD: PlaceOnThread = { place: 1, previous: undefined, isFirst: true };

/**
 * Locks the request's thread, if it names one. Throws 404; 409 for a thread with an unfinished run, an erased one, or one
 * being handed over (`HandingOver`).
 */
export async function placeOn(tx: Tx, request: Placed): Promise<PlaceOnThread> {
  if (!request.threadId) return NEW_THREAD;
  const thread = await lockThread(tx, request.threadId);
  if (!thread && request.beginsThread) return NEW_THREAD;
  if (!thread || thread.workspace_id !== request.workspaceId) throw notFound('The thread');
  if (thread.erased_at) throw erased('The thread');
  const { last, session } = await openThreadOf(tx, thread);
  if (last && !request.takesHandoffOn) await mustHaveAgent(tx, last);
  if (last && !isTerminal(last.status)) {
    throw conflict(`The thread has an unfinished run, ${last.id}.`, { run_id: last.id });
  }
  const place = thread.run_count + 1;
  if (!last) return { place, session, previous: undefined };
  const [carried, context, isUnread] = await Promise.all([
    findCarried(tx, last.id),
    findCompaction(tx, last.id),
    hasUnread(tx, last.id),
  ]);
  const waiting = request.beginsWithWaiting ? undefined : waitingMessage(last);
  if (!last.erased_at) return { place, session, waiting, previous: { ...last, context, carried, isUnread } };
  // Erased messages keep their places: the conversation continues beside them, from the end of its remaining content.
  const kept = await lastUnerasedRun(tx, request.threadId);
  const beside = kept && {
    lineage: newId(),
    lineage_base: segmentsOf(kept, kept.length),
    length: kept.length,
    isUnread: await hasUnread(tx, kept.id),
  };
  return { place, session, previous: beside };
}

interface Placed {
  workspaceId: string;
  threadId?: string | undefined;
  beginsThread?: boolean;
  takesHandoffOn?: boolean;
  beginsWithWaiting?: boolean;
}
