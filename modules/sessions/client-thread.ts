/** Threads of clients: opened before anything is said, read from any place, stopped. */
import type { Caller } from '../../core/caller.ts';
import { forbidden, notFound } from '../../core/errors.ts';
import { isTerminal } from '../../core/events.ts';
import { hasScope } from '../../core/scopes.ts';
import { newId } from '../../lib/new-id.ts';
import { findAgent } from '../../db/agents.ts';
import type { Tx } from '../../db/database.ts';
import { findRunRow } from '../../db/runs.ts';
import { findTurnStart } from '../../db/sessions.ts';
import { findRunOnThread, type RunOnThread } from '../../db/shown-turns.ts';
import { listPartsOfOthers, type PartOfOther } from '../../db/thread-parts.ts';
import { findThread, insertThread } from '../../db/threads.ts';
import { hasAskedFor } from '../../db/requesters.ts';
import { keyToAsk } from '../conversations/threads.ts';
import type { Context } from '../governance/context.ts';
import { appendToRun } from '../run-log/append-to-run.ts';
import { cancelRun } from '../runs/end-run.ts';
import { announceInterruption, interruptedTurn } from '../runs/interrupt-turn.ts';

interface AgentRef {
  caller: Caller;
  agentId: string;
}

/** Throws 404 if the workspace has no such agent. */
export async function requireAgent(tx: Tx, { caller, agentId }: AgentRef): Promise<void> {
  if (!(await findAgent(tx, agentId, caller.workspaceId))) throw notFound('The agent');
}

/** Opens a thread with an agent; returns its id. Throws 404; 403 for a token bound to another thread. */
export async function openThread(context: Context, { caller, agentId }: AgentRef): Promise<string> {
  const { tenantId, workspaceId, boundThreadId } = caller;
  if (boundThreadId !== undefined) throw forbidden('The token is for one thread, and begins no other.');
  const id = newId();
  await context.db.withTenant(tenantId, async (tx) => {
    await requireAgent(tx, { caller, agentId });
    await insertThread(tx, { id, tenant_id: tenantId, workspace_id: workspaceId, agent_id: agentId });
  });
  return id;
}

/** Throws 404 if the workspace has no such thread with the agent, or it is erased. */
export async function requireThread(
  context: Context,
  { caller, agentId, threadId }: AgentRef & { threadId: string },
): Promise<void> {
  const { tenantId, workspaceId, boundThreadId = threadId } = caller;
  const thread = await context.db.withTenant(tenantId, (tx) => findThread(tx, threadId));
  const isTheirs = thread?.workspace_id === workspaceId && thread.agent_id === agentId && boundThreadId === threadId;
  if (!isTheirs || thread.erased_at !== null) throw notFound('The session');
}

/**
 * Throws 404 if the caller may not read the thread: it needs the scope `runs:read`, a token for the thread, or to have said
 * something on it.
 */
export async function requireReadableThread(tx: Tx, caller: Caller, threadId: string): Promise<void> {
  const { scopes, keyId, boundThreadId } = caller;
  if (hasScope(scopes, 'runs:read') || boundThreadId === threadId || (await hasAskedFor(tx, { threadId, keyId })))
    return;
  if ((await findThread(tx, threadId))?.head_run_id) throw notFound('The session');
}

export type { PartOfOther };

/** A run, and where in it the turn of a position begins. */
export interface RunFrom extends RunOnThread {
  turnStart: number;
}

/** The thread's run at `place` or the next one after it, and the position in it at which the turn of `seq` begins. */
export async function findRunFrom(
  context: Context,
  { tenantId, threadId, place, seq }: { tenantId: string; threadId: string; place: number; seq: number },
): Promise<RunFrom | undefined> {
  return context.db.withTenant(tenantId, async (tx) => {
    const run = await findRunOnThread(tx, { threadId, place });
    if (!run) return undefined;
    return { ...run, turnStart: run.place === place ? await findTurnStart(tx, { runId: run.id, seq }) : 0 };
  });
}

/** What a thread shows of others, oldest first, as far as the caller may read it. */
export async function readPartsOfOthers(
  context: Context,
  { caller, threadId }: { caller: Caller; threadId: string },
): Promise<PartOfOther[]> {
  return context.db.withTenant(caller.tenantId, (tx) => listPartsOfOthers(tx, threadId, keyToAsk(caller, threadId)));
}

/** Stops the thread's open turn, and with it a run that does not stay open. False if no turn is open, or it has ended meanwhile. */
export async function stopTurnOf(
  context: Context,
  { caller, threadId }: { caller: Caller; threadId: string },
): Promise<boolean> {
  const { tenantId } = caller;
  const run = await context.db.withTenant(tenantId, async (tx) => {
    const head = (await findThread(tx, threadId))?.head_run_id;
    return head ? findRunRow(tx, head) : undefined;
  });
  if (!run || isTerminal(run.status) || run.open_turn_id === null) return false;
  const ref = { tenantId, runId: run.id };
  if (!run.keep_open) return cancelRun(context, { ...ref, by: caller }, 'The client cancelled the turn.');
  const appended = await appendToRun(context, ref, async (now, tx) => {
    if (isTerminal(now.status) || now.open_turn_id !== run.open_turn_id) return null;
    const error = { code: 'interrupted', message: 'The user interrupted the turn before the call had a result.' };
    return interruptedTurn(tx, now, { reason: 'interrupt', error });
  });
  if (appended) announceInterruption(context, appended);
  return appended !== null;
}
