/** The actions of front ends on a thread, in any protocol: send a message, answer what is asked, find the turn to show. */
import type { Caller } from '../../core/caller.ts';
import { endAsCompleted } from '../../core/decision-events/endings.ts';
import { conflict, forbidden, notFound } from '../../core/errors.ts';
import { isTerminal, type TurnInput } from '../../core/events.ts';
import { hasScope } from '../../core/scopes.ts';
import { fixedId } from '../../core/ids.ts';
import { newId } from '../../lib/new-id.ts';
import { findByExternalId } from '../../db/external-ids.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { Tx } from '../../db/database.ts';
import { findRunRow, lockRun } from '../../db/runs.ts';
import { readSessionState } from '../../db/sessions.ts';
import { findShownTurn, type ShownTurn } from '../../db/shown-turns.ts';
import { findThread, hasThread, lockThreadOrName } from '../../db/threads.ts';
import { hasHandedOff } from '../../db/handoffs.ts';
import { listAnswerable, type Answerable } from '../../db/waits.ts';
import { findTurn } from '../../db/turns.ts';
import { findAgent } from '../../db/agents.ts';
import type { Context } from '../governance/context.ts';
import { announceAppended, appendIn, type Announcement } from '../run-log/append-to-run.ts';
import { withInput, type GivenInput, type InputFor } from '../runs/attach-files.ts';
import { writeRun } from '../runs/create-run.ts';
import { mustHaveAgent } from '../runs/handing-over.ts';
import { queueMessageIn, waitingMessage, type WaitingMessage } from '../runs/message-queue.ts';
import { postTurnIn } from '../runs/post-turn.ts';
import { idempotently, type IdempotentRequest } from '../tenants/idempotency.ts';
import { answerQuestionIn } from '../waits/answer-question.ts';
import { answerWaits, type WaitAnswer } from '../waits/answer-waits.ts';
import { isUuid } from '../../lib/is-uuid.ts';
import { afterHandoff } from './after-handoff.ts';
import { requireReadableThread } from './client-thread.ts';

export type { Answerable, GivenInput, ShownTurn, WaitAnswer };

const EXTERNAL = 'ext:';

/**
 * The id of the thread that a client names: by its id, by `ext:` and its external id, otherwise the id derived from the
 * client's own name. Throws 403 if the caller's token is for another thread.
 */
export async function threadIdOf(
  tx: Tx,
  { workspaceId, boundThreadId }: Pick<Caller, 'workspaceId' | 'boundThreadId'>,
  name: string,
): Promise<string> {
  const given = name.toLowerCase();
  const isId = isUuid(name) && (given === boundThreadId || (await hasThread(tx, { id: given, workspaceId })));
  const named = name.startsWith(EXTERNAL)
    ? await findByExternalId(tx, 'threads', { workspaceId, externalId: name.slice(EXTERNAL.length) })
    : undefined;
  const id = named ?? (isId ? given : fixedId(`thread of workspace ${workspaceId}: ${name}`));
  if (boundThreadId === undefined || id === boundThreadId) return id;
  throw forbidden('The token is for one thread, and this is not about it.');
}

/** The same for a path. A client's own name in the form of an id stands for a thread only once something was said on it. */
export async function threadIdInPath(tx: Tx, caller: Caller, name: string): Promise<string> {
  const id = await threadIdOf(tx, caller, name);
  const isNamed = !isUuid(name) || (await findThread(tx, id))?.workspace_id === caller.workspaceId;
  return isNamed ? id : name.toLowerCase();
}

/**
 * The thread's id, begun or not. Throws 404 for an unknown id: a client's own name in the form of an id stands for a thread
 * only once something was said on it.
 */
export async function nameThread(context: Context, caller: Caller, name: string): Promise<string> {
  return context.db.withTenant(caller.tenantId, async (tx) => {
    const id = await threadIdOf(tx, caller, name);
    const isNamed = !isUuid(name) || id === name.toLowerCase();
    if (isNamed || (await hasThread(tx, { id, workspaceId: caller.workspaceId }))) return id;
    throw notFound('The thread');
  });
}

/** What becomes of a message while a turn is open: it begins the next one, is read in this one, or is refused. */
export const MESSAGE_MODES = ['queue', 'steer', 'reject'] as const;
export type MessageMode = (typeof MESSAGE_MODES)[number];

export interface Saying {
  caller: Caller;
  agentId: string;
  /** From `threadIdOf`. An unknown thread is begun. */
  threadId: string;
  input: GivenInput;
  mode?: MessageMode | undefined;
  /** Id of the message if it has to wait, derived from the client's id for it. */
  messageId?: string | undefined;
  traceparent?: string | undefined;
  idempotency: IdempotentRequest;
  /**
   * The request as which a repeated message is sent again if the turn that it began has failed or was cancelled; if absent,
   * that turn is returned.
   */
  after?: (turnId: string) => IdempotentRequest;
  /** The message comes along with answers to all questions, and is not one itself. */
  isBesideAnswers?: boolean;
}

/** The turn that a message began or joined, or for whose end it waits. */
export interface Said {
  turn: ShownTurn;
  /** Id of the message that waited when this was said. */
  waiting?: string;
  /** It was said before. */
  isRepeated?: boolean;
}

/**
 * Takes a message: as a turn of the thread's open run, the answer to its only open question, or the first turn of a new run,
 * which stays open. During a turn it waits as `mode` says. Throws 404 for an unknown agent, or a thread that the caller may not read; 409 for a busy thread in mode
 * `reject` or if its run ends with its turn, and for a session's thread, whose messages go to its chat.
 */
export async function say(context: Context, saying: Saying): Promise<Said> {
  return afterHandoff(context, saying.caller.tenantId, () => take(context, saying));
}

async function take(context: Context, saying: Saying): Promise<Said> {
  const { caller, threadId, agentId, input } = saying;
  const { tenantId, workspaceId } = caller;
  const written: Announcement[] = [];
  const answer = await withInput(context, { tenantId, workspaceId, agentId, threadId, input }, (inputFor) =>
    idempotently<{ turn_id: string; message_id?: string }>(context, saying.idempotency, async (tx) => {
      const { turnId, waiting } = await sayIn({ context, tx, written, inputFor }, saying);
      return { status: 202, body: { turn_id: turnId, ...(waiting !== undefined && { message_id: waiting }) } };
    }),
  );
  for (const each of written) announceAppended(context, each);
  const { turn_id: turnId, message_id: waiting } = answer.body;
  const { turn, isInVain } = await context.db.withTenant(caller.tenantId, async (tx) => {
    if (answer.replayed) await requireReadableThread(tx, caller, threadId);
    const found = await requireTurn(tx, threadId, turnId);
    const isToBeLookedAt = answer.replayed && saying.after && !found.isOpen;
    const row = isToBeLookedAt ? await findTurn(tx, found.runId, turnId) : undefined;
    return { turn: found, isInVain: row?.status === 'failed' || row?.status === 'cancelled' };
  });
  if (isInVain && saying.after) return say(context, { ...saying, idempotency: saying.after(turnId) });
  return { turn, isRepeated: answer.replayed, ...(waiting !== undefined && { waiting }) };
}

/** The transaction of a message, and what to announce after it. */
interface At {
  context: Context;
  tx: Tx;
  written: Announcement[];
  inputFor: InputFor;
}

async function sayIn(at: At, saying: Saying): Promise<{ turnId: string; waiting?: string }> {
  const { tx, written } = at;
  const { caller, agentId, threadId, traceparent } = saying;
  const { tenantId, workspaceId, keyId: requestedBy } = caller;
  if (!(await findAgent(tx, agentId, workspaceId))) throw notFound('The agent');
  const thread = await lockThreadOrName(tx, threadId);
  // Whoever answers what is asked on a thread knows of it.
  if (!saying.isBesideAnswers) await requireReadableThread(tx, caller, threadId);
  if (await readSessionState(tx, { id: threadId, workspaceId })) {
    throw conflict('The thread is that of a session: its messages go to /agent/chat.', { session_id: threadId });
  }
  // Locked, so that no turn ends before the message has its place.
  const run = thread?.head_run_id ? await lockRun(tx, thread.head_run_id) : undefined;
  if (run) await mustHaveAgent(tx, run);
  if (!run || isTerminal(run.status)) return beginRun(at, saying, run && waitingMessage(run));
  if (run.agent_id !== agentId && !(await hasHandedOff(tx, { threadId, agentId }))) {
    written.push(await endIdle(tx, run));
    return beginRun(at, saying, undefined);
  }
  const input = await at.inputFor(tx, { runId: run.id, isNew: false });
  const about = { tenantId, agentId: run.agent_id, runId: run.id, input, requestedBy, traceparent };
  const mayAnswer = run.open_turn_id !== null && !saying.isBesideAnswers;
  const [attachedAt] = saying.input.attachmentPaths ?? [];
  const answered = mayAnswer ? await answerQuestionIn(tx, { ...about, attachedAt }) : undefined;
  const isRefused = saying.mode === 'reject' || !run.keep_open;
  if (answered || run.open_turn_id === null || isRefused) {
    const { turnId, written: posted } = answered ?? (await postTurnIn(tx, about));
    written.push(posted);
    return { turnId };
  }
  // Messages during a question or approval go with the decision.
  const mode = saying.mode === 'steer' || (await isDeciding(tx, run.id)) ? 'steer' : 'queue';
  return { turnId: run.open_turn_id, waiting: await wait(at, saying, { runId: run.id, mode, input }) };
}

/** Ends the previous agent's run, since another continues the conversation. Throws 409 while it works. */
async function endIdle(
  tx: Tx,
  { id: runId, tenant_id: tenantId, open_turn_id: turnId }: RunRow,
): Promise<Announcement> {
  if (turnId !== null) throw conflict('Another agent is at work on the thread.', { run_id: runId, turn_id: turnId });
  const appended = await appendIn(tx, { tenantId, runId }, ({ status }) => ({
    events: endAsCompleted({ status }, 'user', 'completed'),
  }));
  if (!appended) throw new Error(`run ${runId} was not completed`);
  return { ...appended, runId };
}

async function isDeciding(tx: Tx, runId: string): Promise<boolean> {
  return (await listAnswerable(tx, runId)).some(({ type }) => type === 'approval' || type === 'user');
}

/** Begins a run. A message left waiting when the previous run was ended from outside comes first. */
async function beginRun(
  at: At,
  saying: Saying,
  left: WaitingMessage | undefined,
): Promise<{ turnId: string; waiting?: string }> {
  const { caller, agentId, threadId, mode, traceparent } = saying;
  const runId = newId();
  const input = await at.inputFor(at.tx, { runId, isNew: true });
  const made = await writeRun(at.context, at.tx, {
    tenantId: caller.tenantId,
    workspaceId: caller.workspaceId,
    agentId,
    runId,
    threadId,
    beginsThread: true,
    input: left?.input ?? input,
    beginsWithWaiting: left !== undefined,
    config: { keep_open: true },
    mayRaiseAutonomy: hasScope(caller.scopes, 'approvals:write'),
    requestedBy: caller.keyId,
    traceparent,
  });
  at.written.push(made.written);
  const turnId = made.body.turn_id ?? '';
  if (!left) return { turnId };
  const waits = { runId, input, mode: mode === 'steer' ? ('steer' as const) : ('queue' as const) };
  return { turnId, waiting: await wait(at, saying, waits) };
}

async function wait(
  { tx, written }: At,
  { caller, messageId = newId() }: Saying,
  { runId, mode, input }: { runId: string; mode: 'queue' | 'steer'; input: TurnInput },
): Promise<string> {
  const message = { message_id: messageId, mode, input, requested_by: caller.keyId };
  written.push(await queueMessageIn(tx, { tenantId: caller.tenantId, runId, message }));
  return messageId;
}

interface Answered {
  caller: Caller;
  threadId: string;
  /** Selects those of the client's answers that match open questions. */
  choose: (open: readonly Answerable[]) => WaitAnswer[];
  /** The turn that the client means, if that is one: it is returned in place of the newest one if nothing is answered. */
  turnId?: string | undefined;
  /** A message that comes along with the answers, given what this turn was asked. */
  sayingAfter?: (turn: { id: string; said: string }) => Saying | undefined;
  idempotency: IdempotentRequest;
}

interface Resumed extends Said {
  isAnswered: boolean;
  /** The turn's position before the answers. */
  stood: number;
}

/**
 * Answers what the thread's newest run waits for, all at once; returns the turn with all of the answers, and the waiting
 * message. Skips what is answered already, so that a repeated request continues the first. A message along with answers is
 * queued before them, and goes with them. Throws 404, also if there is nothing to answer and the caller may not read the thread, and as `answerWaits` and `say` do.
 */
export async function answerOnThread(
  context: Context,
  { caller, threadId, choose, turnId: meantId, sayingAfter, idempotency }: Answered,
): Promise<Resumed> {
  const { tenantId } = caller;
  const { before, open, waiting, saying } = await context.db.withTenant(tenantId, async (tx) => {
    if (!(await hasThread(tx, { id: threadId, workspaceId: caller.workspaceId }))) throw notFound('The thread');
    const shown = await requireTurn(tx, threadId);
    const run = await findRunRow(tx, shown.runId);
    const begun = sayingAfter && (await findTurn(tx, shown.runId, shown.turnId));
    return {
      before: shown,
      open: await listAnswerable(tx, shown.runId),
      waiting: run && waitingMessage(run),
      saying: begun && sayingAfter({ id: begun.id, said: begun.input.message }),
    };
  });
  const answers = choose(open);
  const isAnswered = answers.length > 0;
  const said = saying && (await say(context, { ...saying, isBesideAnswers: isAnswered }));
  if (said && !isAnswered) return { ...said, isAnswered, stood: said.turn.head };
  if (isAnswered) await answerWaits(context, { caller, runId: before.runId, answers, idempotency });
  // Read after the answers (or after the open questions): the turn no longer waits for what is answered.
  const turn = await context.db.withTenant(tenantId, async (tx) => {
    if (!isAnswered) await requireReadableThread(tx, caller, threadId);
    const isMeant = !isAnswered && meantId !== undefined && isUuid(meantId);
    const meant = isMeant ? await findShownTurn(tx, threadId, meantId) : undefined;
    return meant ?? requireTurn(tx, threadId, before.turnId);
  });
  const stood = isAnswered ? before.head : turn.head;
  const waits = said ? said.waiting : before.isOpen ? waiting?.message_id : undefined;
  return { turn, isAnswered, stood, ...(waits !== undefined && { waiting: waits }) };
}

/** The newest turn of a thread in the workspace; undefined if it has none, or its name stands for none yet. Throws 404 for an unknown id. */
export async function readShownTurn(context: Context, caller: Caller, name: string): Promise<ShownTurn | undefined> {
  return context.db.withTenant(caller.tenantId, async (tx) => {
    const id = await threadIdOf(tx, caller, name);
    if (await hasThread(tx, { id, workspaceId: caller.workspaceId })) return findShownTurn(tx, id);
    if (isUuid(name)) throw notFound('The thread');
    return undefined;
  });
}

/** Whether this thread is erased, so that it has no turn to show; only for callers that may read it. */
export async function isErasedThread(context: Context, caller: Caller, name: string): Promise<boolean> {
  return context.db.withTenant(caller.tenantId, async (tx) => {
    const thread = await findThread(tx, await threadIdInPath(tx, caller, name));
    if (!thread?.erased_at || thread.workspace_id !== caller.workspaceId) return false;
    await requireReadableThread(tx, caller, thread.id);
    return true;
  });
}

async function requireTurn(tx: Tx, threadId: string, turnId?: string): Promise<ShownTurn> {
  const turn = await findShownTurn(tx, threadId, turnId);
  if (!turn) throw notFound('The turn');
  return turn;
}
