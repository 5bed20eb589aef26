/** Streams a session: the logs of its runs in order, then live. */
import type { EventType } from '../../core/events.ts';
import { notFound } from '../../core/errors.ts';
import type { SessionPosition } from '../../core/session-position.ts';
import type { LoggedEvent } from '../../db/events.ts';
import type { FollowedRun } from '../../db/sessions.ts';
import type { Caller } from '../../core/caller.ts';
import type { Context } from '../governance/context.ts';
import { listenToThread, type ThreadNotices } from '../runs/listen-to-thread.ts';
import { streamRun, whileOpen, type StreamItem } from '../runs/stream-run.ts';
import { requireTokenFor } from './session.ts';

interface SessionStreamRequest {
  tenantId: string;
  sessionId: string;
  /** The position after which to begin. */
  after: SessionPosition;
  /** Event types to include. */
  types: readonly EventType[];
  signal: AbortSignal;
}

/**
 * An event with its run's place, a hint that is in no log, a ping after a quiet while, or that the session was deleted. The
 * stream starts with the current turn's events up to the position (`isPast`), since what is shown of later ones also depends
 * on them.
 */
export type SessionStreamItem =
  | { kind: 'logged'; event: LoggedEvent; place: number; isPast: boolean }
  | Exclude<StreamItem, { kind: 'logged' }>
  | { kind: 'deleted' };

/** A session's current position. Throws 404. */
export async function readSessionPosition(
  context: Context,
  caller: Pick<Caller, 'tenantId' | 'workspaceId' | 'boundThreadId'>,
  sessionId: string,
): Promise<SessionPosition> {
  requireTokenFor(caller, sessionId);
  const head = await context.reads.sessionHead(caller.tenantId, sessionId);
  if (head?.workspace_id !== caller.workspaceId) throw notFound('The session');
  return { place: head.place ?? 0, seq: head.seq ?? 0 };
}

/**
 * Yields the durable events of all runs of a session in order, each once, and deltas of the answer being written. Ends with
 * the signal, or once the session was deleted, after everything before that.
 */
export async function* streamSession(
  context: Context,
  request: SessionStreamRequest,
): AsyncGenerator<SessionStreamItem> {
  const { sessionId, signal } = request;
  // Listens before the first look, so that no run begins unnoticed between a look and the wait.
  const notices = listenToThread(context, { threadId: sessionId, signal });
  try {
    let at = request.after;
    while (!signal.aborted) {
      const found = await look(context, request, at);
      if (found?.run) {
        const { run } = found;
        yield* followRun(context, request, { run, after: run.place === at.place ? at.seq : 0, notices });
        at = { place: run.place + 1, seq: 0 };
      } else if (!found || found.is_archived) {
        yield { kind: 'deleted' };
        return;
      } else {
        await notices.next(at.place);
      }
    }
  } finally {
    notices.close();
  }
}

/** Streams a run from a position to its end. */
async function* followRun(
  context: Context,
  request: SessionStreamRequest,
  { run, after, notices }: { run: FollowedRun; after: number; notices: ThreadNotices },
): AsyncGenerator<SessionStreamItem> {
  const { tenantId, types, signal } = request;
  const from = Math.max(0, run.turn_start - 1);
  for await (const item of streamRun(context, { tenantId, runId: run.id, after: from, types, signal })) {
    if (item.kind === 'logged') {
      const { event } = item;
      yield { kind: 'logged', event, place: run.place, isPast: event.seq <= after };
    } else {
      yield item;
    }
    // Deleting a session also cancels its run; if the process died between the two, only this look shows it.
    if (item.kind !== 'ping' || !notices.isBeyond(run.place)) continue;
    if ((await look(context, request, { place: run.place, seq: 0 }))?.is_archived !== false) {
      yield { kind: 'deleted' };
      return;
    }
  }
}

function look(context: Context, request: SessionStreamRequest, at: SessionPosition) {
  const { tenantId, sessionId } = request;
  return whileOpen(request, () => context.reads.followedRun(tenantId, { sessionId, ...at }));
}
