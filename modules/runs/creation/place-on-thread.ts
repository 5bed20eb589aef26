/** A new run's place on its thread. */
import { conflict, erased, notFound } from '../../../core/errors.ts';
import { isTerminal, type RunKind } from '../../../core/events.ts';
import { segmentsOf } from '../../../core/fork.ts';
import type { Tx } from '../../../db/database.ts';
import { lastUnerasedRun } from '../../../db/runs.ts';
import { lockThread } from '../../../db/threads.ts';
import { hasUnread } from '../../../db/unread.ts';
import type { SessionOfThread } from '../../../db/sessions.ts';
import { handedOn, type Previous } from '../conversation-before.ts';
import { mustHaveAgent } from '../handing-over.ts';
import { waitingMessage, type WaitingMessage } from '../message-queue.ts';
import { openThreadOf } from './open-thread.ts';

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

/** The first place on a new thread; `after`: the conversation of another thread on which it stands. */
export function onNewThread({ after }: Pick<Placed, 'after'> = {}): PlaceOnThread {
  return { place: 1, previous: after, isFirst: true };
}

/**
 * Locks the request's thread, if it names one. Throws 404; 409 for a thread with an unfinished run, an erased one, or one
 * being handed over (`HandingOver`), and for a workflow on a session's thread.
 */
export async function placeOn(tx: Tx, request: Placed): Promise<PlaceOnThread> {
  if (!request.threadId) return onNewThread(request);
  const thread = await lockThread(tx, request.threadId);
  if (!thread && request.beginsThread) return onNewThread();
  if (!thread || thread.workspace_id !== request.workspaceId) throw notFound('The thread');
  if (thread.erased_at) throw erased('The thread');
  const { last, session } = await openThreadOf(tx, thread);
  if (last && !request.takesHandoffOn) await mustHaveAgent(tx, last);
  if (last && !isTerminal(last.status)) {
    throw conflict(`The thread has an unfinished run, ${last.id}.`, { run_id: last.id });
  }
  // It takes no messages during its turn, has no plan to decide on, and cannot be interrupted.
  if (session && request.kind === 'workflow') {
    throw conflict('The thread is that of a session, which is with an agent; a workflow goes on with any other.', {
      session_id: thread.id,
    });
  }
  const place = thread.run_count + 1;
  if (!last) return { place, session, previous: undefined };
  const handed = await handedOn(tx, last.id);
  const waiting = request.beginsWithWaiting ? undefined : waitingMessage(last);
  if (!last.erased_at) return { place, session, waiting, previous: { ...last, ...handed } };
  // Erased messages keep their places: the conversation continues beside them, from the end of its remaining content.
  const kept = await lastUnerasedRun(tx, request.threadId);
  const beside = kept && {
    lineage_base: segmentsOf(kept, kept.length),
    length: kept.length,
    isUnread: await hasUnread(tx, kept.id),
  };
  return { place, session, previous: beside };
}

interface Placed {
  workspaceId: string;
  threadId?: string | undefined;
  kind?: RunKind;
  after?: Previous | undefined;
  beginsThread?: boolean;
  takesHandoffOn?: boolean;
  beginsWithWaiting?: boolean;
}
