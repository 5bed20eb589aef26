/** A message to a session: begins a turn, answers a question, or waits for the open turn. */
import type { Caller } from '../../core/caller.ts';
import { autonomyOf, DEFAULT_AUTONOMY } from '../../core/definition.ts';
import { conflict, erased, forbidden, impossible, notFound } from '../../core/errors.ts';
import { isTerminal, type TurnInput } from '../../core/events.ts';
import { hasScope } from '../../core/scopes.ts';
import { sessionStatus, type SessionStatus } from '../../core/session-status.ts';
import { newId } from '../../lib/new-id.ts';
import { findAgent, listActiveAgents } from '../../db/agents.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { Tx } from '../../db/database.ts';
import { findHandedTo } from '../../db/handoffs.ts';
import { lockRun } from '../../db/runs.ts';
import { lockThread } from '../../db/threads.ts';
import { findShownQuestion } from '../../db/waits.ts';
import { insertSession, touchSession, type SessionState } from '../../db/sessions.ts';
import type { Context } from '../governance/context.ts';
import { announceAppended, appendIn, type Announcement } from '../run-log/append-to-run.ts';
import { writeRun } from '../runs/create-run.ts';
import { completion } from '../runs/end-run.ts';
import { announceThread } from '../runs/listen-to-thread.ts';
import { mustHaveAgent } from '../runs/handing-over.ts';
import { queueMessageIn, waitingMessage } from '../runs/message-queue.ts';
import { postTurnIn } from '../runs/post-turn.ts';
import { idempotently, type IdempotentAnswer, type IdempotentRequest } from '../tenants/idempotency.ts';
import { postSignalIn } from '../waits/post-signal.ts';
import { afterHandoff } from './after-handoff.ts';
import { requireOpenSession, requireSession } from './session.ts';

interface Chat {
  caller: Caller;
  message: string;
  /** Number of the request's characters that could not be stored. */
  replaced?: number | undefined;
  /** Absent for a new session. */
  sessionId?: string | undefined;
  userId: string;
  agentId?: string | undefined;
  autonomyLevel?: number | undefined;
  context?: Record<string, unknown> | undefined;
  /** What becomes of the message while a turn is open. */
  mode: 'queue' | 'steer' | 'reject';
  traceparent?: string | undefined;
  idempotency: IdempotentRequest;
}

interface ChatAnswer {
  session_id: string;
  status: SessionStatus;
  plan_id?: string;
}

/** The transaction of a message. */
interface At {
  context: Context;
  tx: Tx;
}

/** Default autonomy level of a session; the agent's, if lower. */
const SESSION_AUTONOMY = 1;

/**
 * Takes a message. Throws 404 for an unknown session or agent, and another user's session; 409 for a deleted session, and for
 * a busy one in mode `reject`; 422 if it is unclear which agent is meant.
 */
export async function chat(context: Context, request: Chat): Promise<IdempotentAnswer<ChatAnswer>> {
  return afterHandoff(context, request.caller.tenantId, () => take(context, request));
}

async function take(context: Context, request: Chat): Promise<IdempotentAnswer<ChatAnswer>> {
  const written: Announcement[] = [];
  let head: number | null = null;
  const answer = await idempotently<ChatAnswer>(context, request.idempotency, async (tx) => {
    const at = { context, tx };
    const { id, along } =
      request.sessionId === undefined ? await begin(at, request, written) : await goOn(at, request, written);
    const [{ run, facts, pending }] = await Promise.all([requireSession(tx, request.caller, id), along]);
    head = run?.thread_place ?? null;
    const plan = pending && { plan_id: pending.plan_id };
    return { status: 202, body: { session_id: id, status: sessionStatus(facts), ...plan } };
  });
  for (const each of written) announceAppended(context, each);
  if (head !== null) announceThread(context.bus, answer.body.session_id, head);
  return answer;
}

/** The session of a message; `along`: a write under way, sent ahead of later queries. */
interface Taken {
  id: string;
  along?: Promise<void>;
}

async function begin(at: At, request: Chat, written: Announcement[]): Promise<Taken> {
  const { tx } = at;
  const { caller, userId } = request;
  if (caller.boundThreadId !== undefined) throw forbidden('The token is for one session, and begins no other.');
  const agentId = request.agentId ?? (await onlyAgent(tx, caller));
  const agent = await findAgent(tx, agentId, caller.workspaceId);
  if (!agent) throw notFound('The agent');
  const level = request.autonomyLevel ?? Math.min(SESSION_AUTONOMY, autonomyOf(agent.definition));
  const made = await startRun(at, request, { agentId, userId, level });
  written.push(made.written);
  const along = insertSession(tx, {
    id: made.threadId,
    tenant_id: caller.tenantId,
    workspace_id: caller.workspaceId,
    agent_id: agentId,
    user_id: userId,
    autonomy_level: level,
    context: request.context ?? {},
  });
  return { id: made.threadId, along };
}

/**
 * Whether another run continues after this one, which is idle: its autonomy level exceeds the session's, or its agent's
 * current one and the caller may not raise it. Throws 409 while a run above the session's level is at work.
 */
async function isLeft(tx: Tx, caller: Caller, { run, session }: SessionState): Promise<boolean> {
  if (!run || isTerminal(run.status)) return false;
  // Only another release has begun such a run on a session's thread.
  const isLooser = run.config.autonomy_level === undefined || run.config.autonomy_level > session.autonomy_level;
  if (run.open_turn_id === null) return isLooser || isAbove(tx, caller, run);
  if (isLooser) throw conflict("A run above the session's autonomy level is at work.", { run_id: run.id });
  return false;
}

async function isAbove(tx: Tx, caller: Caller, { agent_id, config }: RunRow): Promise<boolean> {
  if (config.autonomy_level === undefined || hasScope(caller.scopes, 'approvals:write')) return false;
  const agent = await findAgent(tx, agent_id, caller.workspaceId);
  return config.autonomy_level > (agent ? autonomyOf(agent.definition) : DEFAULT_AUTONOMY);
}

async function onlyAgent(tx: Tx, caller: Caller): Promise<string> {
  const [only, another] = await listActiveAgents(tx, caller.workspaceId);
  if (only !== undefined && another === undefined) return only;
  const message =
    only === undefined
      ? 'The workspace has no active agent.'
      : 'The workspace has several agents; agent_id says which (GET /v1/agents lists them).';
  throw impossible(message, [{ path: 'body.agent_id', message }]);
}

async function goOn(at: At, request: Chat, written: Announcement[]): Promise<Taken> {
  const { tx } = at;
  const { caller, sessionId: id = '' } = request;
  const state = await lockSession(tx, caller, id);
  checkSame(request, state);
  const { run, session } = state;
  if (run) await mustHaveAgent(tx, run);
  const agentId = await agentNow(tx, request, state);
  await touchSession(tx, id, request.context);
  const isEnded = await isLeft(tx, caller, state);
  if (run && isEnded) {
    const ended = await appendIn(tx, { tenantId: caller.tenantId, runId: run.id }, (now) =>
      completion(now, { actor: 'system', stopReason: 'completed' }),
    );
    if (ended) written.push({ ...ended, runId: run.id });
  }
  if (!run || isEnded || isTerminal(run.status)) {
    const isHandedOn = agentId !== session.agent_id;
    const of = { agentId, isHandedOn, userId: session.user_id, level: session.autonomy_level, threadId: id };
    // A message left waiting when its run was ended from outside comes first.
    const left = run ? waitingMessage(run)?.input : undefined;
    const started = await startRun(at, request, { ...of, ...(left && { input: left }) });
    written.push(started.written);
    if (left) {
      // No turn was open when the new message came, so it is taken even in mode `reject`.
      const mode = request.mode === 'reject' ? 'queue' : request.mode;
      written.push(await queue(tx, { ...request, mode }, { runId: started.runId, status: 'planning' }));
    }
  } else if (run.open_turn_id === null) {
    const { tenantId, keyId: requestedBy } = caller;
    const { traceparent } = request;
    const posted = await postTurnIn(tx, {
      tenantId,
      agentId: run.agent_id,
      runId: run.id,
      input: inputOf(request),
      requestedBy,
      traceparent,
    });
    written.push(posted.written);
  } else {
    written.push(await sayDuringTurn(tx, request, { runId: run.id, status: sessionStatus(state.facts) }));
  }
  return { id };
}

/**
 * Locks the session and its newest run: of two simultaneous messages the second sees what the first began, and no turn ends
 * meanwhile. Throws as `requireOpenSession` does.
 */
async function lockSession(tx: Tx, caller: Caller, id: string): Promise<SessionState> {
  await lockThread(tx, id);
  const { run } = await requireOpenSession(tx, caller, id);
  if (run) await lockRun(tx, run.id);
  return requireOpenSession(tx, caller, id);
}

/** The agent that has the conversation. Throws 409 if the message names another agent that is not the session's own either. */
async function agentNow(tx: Tx, { caller, agentId: wanted }: Chat, { run, session }: SessionState): Promise<string> {
  const isOpen = run !== null && !isTerminal(run.status);
  const isOthers = run !== null && run.agent_id !== session.agent_id;
  const now = isOpen || !isOthers ? (run ?? session).agent_id : await nextAgent(tx, caller, session);
  if (wanted === undefined || wanted === session.agent_id || wanted === now) return now;
  throw conflict('The session is with another agent.', { agent_id: now });
}

/**
 * The agent of the session's next run: the one to which the conversation was handed, if it still takes runs; otherwise the
 * session's own.
 */
async function nextAgent(tx: Tx, caller: Caller, session: SessionState['session']): Promise<string> {
  const handedTo = await findHandedTo(tx, session.id);
  const agent = handedTo === undefined ? undefined : await findAgent(tx, handedTo, caller.workspaceId);
  return agent && agent.status !== 'deprecated' ? agent.id : session.agent_id;
}

/** Throws if the request would change the session's user (404) or autonomy level (409), or the session is erased. */
function checkSame({ userId, autonomyLevel }: Chat, { session }: SessionState): void {
  // The user id was erased with the thread.
  if (session.user_id === '') throw erased('The session');
  if (session.user_id !== userId) throw notFound('The session');
  if (autonomyLevel !== undefined && autonomyLevel !== session.autonomy_level) {
    throw conflict(`The session's autonomy level is ${session.autonomy_level}; another one needs another session.`);
  }
}

interface OpenTurn {
  runId: string;
  status: SessionStatus;
}

/** The message answers the open question, also beside a plan that waits; without a question it is queued. */
async function sayDuringTurn(tx: Tx, request: Chat, { runId, status }: OpenTurn): Promise<Announcement> {
  const waitId = status === 'waiting_approval' ? await findShownQuestion(tx, runId) : undefined;
  if (waitId === undefined) return queue(tx, request, { runId, status });
  const { tenantId, keyId: requestedBy } = request.caller;
  const { message, replaced } = request;
  const said = { payload: { message }, requestedBy, replaced };
  const { written } = await postSignalIn(tx, { tenantId, runId, type: 'user', waitId, ...said });
  if (!written) throw new Error(`an answer to run ${runId} was not posted`);
  return written;
}

/**
 * Queues a message. During an approval it goes with the decision: the turn reads it if it continues, otherwise it begins the
 * next one. Throws 409 in mode `reject`.
 */
async function queue(tx: Tx, request: Chat, { runId, status }: OpenTurn): Promise<Announcement> {
  if (request.mode === 'reject') {
    throw conflict(`The session is ${status}; it takes no message now.`, { status_of_session: status });
  }
  const mode = status === 'waiting_approval' ? 'steer' : request.mode;
  const { tenantId, keyId } = request.caller;
  const message = { message_id: newId(), mode, input: inputOf(request), requested_by: keyId };
  return queueMessageIn(tx, { tenantId, runId, message });
}

function inputOf({ message, replaced }: Chat): TurnInput {
  return { message, ...(replaced !== undefined && { replaced }) };
}

interface RunOfSession {
  agentId: string;
  /** Not the session's first agent; its autonomy level may not exceed its own. */
  isHandedOn?: boolean;
  userId: string;
  level: number;
  threadId?: string;
  /** Input of the first turn, if not the request's. */
  input?: TurnInput;
}

async function startRun(
  { context, tx }: At,
  request: Chat,
  of: RunOfSession,
): Promise<{ runId: string; threadId: string; written: Announcement }> {
  const { caller, traceparent } = request;
  const { body, written } = await writeRun(context, tx, {
    tenantId: caller.tenantId,
    workspaceId: caller.workspaceId,
    agentId: of.agentId,
    threadId: of.threadId,
    input: of.input ?? inputOf(request),
    config: { autonomy_level: of.level, keep_open: true, session: { user_id: of.userId } },
    mayRaiseAutonomy: !of.isHandedOn && hasScope(caller.scopes, 'approvals:write'),
    ...(of.threadId !== undefined && { carriesAutonomy: true as const }),
    beginsWithWaiting: of.input !== undefined,
    requestedBy: caller.keyId,
    traceparent,
  });
  return { runId: body.run_id, threadId: body.thread_id, written };
}
