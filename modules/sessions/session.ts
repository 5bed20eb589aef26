/** A session as read for requests, and the answers about it. */
import type { Caller } from '../../core/caller.ts';
import { conflict, forbidden, notFound } from '../../core/errors.ts';
import { sessionStatus, type SessionStatus } from '../../core/session-status.ts';
import type { Tx } from '../../db/database.ts';
import { lastMessages, type SessionMessage } from '../../db/session-messages.ts';
import { listUnreadInputs, readSessionState, type SessionCallBatch, type SessionState } from '../../db/sessions.ts';
import { findRun, type RunView } from '../../db/runs.ts';
import { LIMITS } from '../../core/limits.ts';
import { waitingMessage } from '../runs/message-queue.ts';

export type { SessionMessage, SessionCallBatch, SessionState };

type SessionCaller = Pick<Caller, 'workspaceId' | 'boundThreadId'>;

/** Throws 403 if the caller's token is for another session. */
export function requireTokenFor({ boundThreadId }: Pick<Caller, 'boundThreadId'>, id: string): void {
  if (boundThreadId !== undefined && boundThreadId !== id) {
    throw forbidden('The token is for one session, and this is not about it.');
  }
}

/** A session of the caller's workspace. Throws 404; 403 as `requireTokenFor` does. */
export async function requireSession(tx: Tx, caller: SessionCaller, id: string): Promise<SessionState> {
  requireTokenFor(caller, id);
  const state = await readSessionState(tx, { id, workspaceId: caller.workspaceId });
  if (!state) throw notFound('The session');
  return state;
}

/** The same, for changing it. Also throws 409 if it was deleted. */
export async function requireOpenSession(tx: Tx, caller: SessionCaller, id: string): Promise<SessionState> {
  const state = await requireSession(tx, caller, id);
  if (state.session.archived_at !== null) throw conflict('The session was deleted; start another one.');
  return state;
}

export interface SessionView {
  state: SessionState;
  status: SessionStatus;
  messages: SessionMessage[];
  queued: string | null;
  /** The newest run, if its open turn waits for something from outside. */
  waiting: RunView | undefined;
}

/** A session with its last messages. Throws 404. */
export async function readSession(tx: Tx, caller: SessionCaller, id: string): Promise<SessionView> {
  const state = await requireSession(tx, caller, id);
  const { run, facts, session } = state;
  const { sessionMessages: limit, sessionMessageWindow: window } = LIMITS;
  const messages = run ? await lastMessages(tx, run.id, { limit, window }) : [];
  const unread = run ? await listUnreadInputs(tx, run.id) : [];
  messages.push(...unread.map(({ input, is_handed }) => toMessage(input.message, is_handed)));
  const waits = run && session.archived_at === null ? waitingMessage(run) : undefined;
  const waiting = run && facts.has_open_turn ? await findRun(tx, run.id) : undefined;
  return {
    state,
    status: sessionStatus(facts),
    messages: messages.slice(-limit),
    queued: waits?.input.message ?? null,
    waiting,
  };
}

function toMessage(content: string, isHanded: boolean): SessionMessage {
  return { role: 'user', content, ...(isHanded && { origin: 'drover' }) };
}
