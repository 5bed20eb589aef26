/** What front ends do on a thread, whatever protocol they speak: say something, answer what is asked, find the turn to show. */
import type { Caller } from '../../core/caller.ts';
import { conflict, notFound } from '../../core/errors.ts';
import { isTerminal, type TurnInput } from '../../core/events.ts';
import { hasScope } from '../../core/scopes.ts';
import { fixedId } from '../../core/ids.ts';
import type { Tx } from '../../db/database.ts';
import { findRunRow, lockThreadOrName } from '../../db/runs.ts';
import { readSessionState } from '../../db/sessions.ts';
import { findShownTurn, hasThread, type ShownTurn } from '../../db/shown-turns.ts';
import { listAnswerable, type Answerable } from '../../db/waits.ts';
import { findAgent } from '../../db/agents.ts';
import type { Context } from '../governance/context.ts';
import { announceAppended, type Announcement } from '../run-log/append-to-run.ts';
import { writeRun } from '../runs/create-run.ts';
import { postTurnIn } from '../runs/post-turn.ts';
import { idempotently, type IdempotentRequest } from '../tenants/idempotency.ts';
import { answerQuestionIn } from '../waits/answer-question.ts';
import { answerWaits, type WaitAnswer } from '../waits/answer-waits.ts';

export type { Answerable, ShownTurn, WaitAnswer };

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** The thread that a client means: one of the workspace by its id, else the one that this name of the client's stands for. */
export async function threadIdOf(tx: Tx, { workspaceId }: Pick<Caller, 'workspaceId'>, name: string): Promise<string> {
  const id = name.toLowerCase();
  if (UUID.test(name) && (await hasThread(tx, { id, workspaceId }))) return id;
  return fixedId(`thread of workspace ${workspaceId}: ${name}`);
}

export interface Said {
  caller: Caller;
  agentId: string;
  /** As `threadIdOf` gives it. A thread that there is not is begun. */
  threadId: string;
  input: TurnInput;
  /** A run that begins with it stays open for further turns. */
  keepsOpen?: boolean;
  traceparent?: string | undefined;
  idempotency: IdempotentRequest;
}

/**
 * Takes a message: a turn of the thread's open run, the answer to its one open question, or the first turn of another run.
 * Throws 404 for an unknown agent, 409 while the thread is busy, and for a session's thread, whose messages go to its chat.
 */
export async function say(context: Context, said: Said): Promise<ShownTurn> {
  const { caller, threadId } = said;
  let written: Announcement | undefined;
  const answer = await idempotently(context, said.idempotency, async (tx) => {
    const posted = await sayIn(context, tx, said);
    written = posted.written;
    return { status: 202, body: { turn_id: posted.turnId } };
  });
  if (written) announceAppended(context, written);
  return context.db.withTenant(caller.tenantId, (tx) => requireTurn(tx, threadId, answer.body.turn_id));
}

async function sayIn(
  context: Context,
  tx: Tx,
  { caller, agentId, threadId, input, keepsOpen = false, traceparent }: Said,
): Promise<{ turnId: string; written: Announcement }> {
  const { tenantId, workspaceId, keyId: requestedBy } = caller;
  if (!(await findAgent(tx, agentId, workspaceId))) throw notFound('The agent');
  if (await readSessionState(tx, { id: threadId, workspaceId })) {
    throw conflict('The thread is that of a session: its messages go to /agent/chat.', { session_id: threadId });
  }
  const thread = await lockThreadOrName(tx, threadId);
  const run = thread?.head_run_id ? await findRunRow(tx, thread.head_run_id) : undefined;
  if (!run || isTerminal(run.status)) {
    const made = await writeRun(context, tx, {
      tenantId,
      workspaceId,
      agentId,
      threadId,
      beginsThread: true,
      input,
      config: keepsOpen ? { keep_open: true } : {},
      mayRaiseAutonomy: hasScope(caller.scopes, 'approvals:write'),
      requestedBy,
      traceparent,
    });
    return { turnId: made.body.turn_id ?? '', written: made.written };
  }
  const about = { tenantId, agentId, runId: run.id, input, requestedBy, traceparent };
  return (run.open_turn_id && (await answerQuestionIn(tx, about))) || postTurnIn(tx, about);
}

export interface Answered {
  caller: Caller;
  threadId: string;
  /** What of the client's answers is for something that is open. */
  choose: (open: readonly Answerable[]) => WaitAnswer[];
  idempotency: IdempotentRequest;
}

/**
 * Answers what the thread's newest run waits for, all at once; the turn as it stood before. What is answered already is
 * passed, so that a repeated request goes on where the first did. Throws 404, and what `answerWaits` throws.
 */
export async function answerOnThread(
  context: Context,
  { caller, threadId, choose, idempotency }: Answered,
): Promise<ShownTurn> {
  const { turn, open } = await context.db.withTenant(caller.tenantId, async (tx) => {
    const shown = await requireTurn(tx, threadId);
    return { turn: shown, open: await listAnswerable(tx, shown.runId) };
  });
  const answers = choose(open);
  if (answers.length > 0) await answerWaits(context, { caller, runId: turn.runId, answers, idempotency });
  return turn;
}

/** The newest turn of a thread of the workspace. Throws 404. */
export async function readShownTurn(context: Context, caller: Caller, name: string): Promise<ShownTurn | undefined> {
  return context.db.withTenant(caller.tenantId, async (tx) => {
    const id = await threadIdOf(tx, caller, name);
    if (!(await hasThread(tx, { id, workspaceId: caller.workspaceId }))) throw notFound('The thread');
    return findShownTurn(tx, id);
  });
}

async function requireTurn(tx: Tx, threadId: string, turnId?: string): Promise<ShownTurn> {
  const turn = await findShownTurn(tx, threadId, turnId);
  if (!turn) throw notFound('The turn');
  return turn;
}
