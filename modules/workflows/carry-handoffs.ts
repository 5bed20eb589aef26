/**
 * Carries handoffs that no workflow carries: the target's run begins once the source's has ended its turn, and rejected
 * work goes back. Each look is one transaction under the lock of the handoff's row, so nothing is begun twice or lost.
 * Locks in the order of those who send messages, hand over or erase: thread, run, handoff.
 */
import type { RunBudget } from '../../core/budget.ts';
import { endAsCompleted } from '../../core/decision-events/endings.ts';
import { autonomyOf } from '../../core/definition.ts';
import { conflict, DroverError, notFound } from '../../core/errors.ts';
import { isTerminal, type NewEvent } from '../../core/events.ts';
import { LIMITS } from '../../core/limits.ts';
import type { RequestedConfig, RunConfig } from '../../core/run-config.ts';
import { findAgent } from '../../db/agents.ts';
import { asOne } from '../../db/as-one.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { Tx } from '../../db/database.ts';
import { isAnyBeingErased } from '../../db/erasures.ts';
import {
  changeHandoff,
  findHandoff,
  isHandedUntrusted,
  isHandoffOlder,
  listHandoffsToCarry,
  lockHandoff,
  noteReturned,
  type HandoffRow,
} from '../../db/handoffs.ts';
import { findRun, lockRun, type RunView } from '../../db/runs.ts';
import { lockThread } from '../../db/threads.ts';
import { restOfBudget } from '../budgets/rest-of-budget.ts';
import { forEachIsolated } from '../for-each-isolated.ts';
import type { Context } from '../governance/context.ts';
import { announceAppended, appendIn, type Announcement, type AppendedChange } from '../run-log/append-to-run.ts';
import { writeRun } from '../runs/create-run.ts';
import { turnOfQueued } from '../runs/message-queue.ts';
import { briefOf, rejectionNote } from './handoffs/brief.ts';
import { mustTake } from './handoffs/write-handoff.ts';

/** Carries all that are due; returns how many. */
export async function carryHandoffs(context: Context): Promise<number> {
  const rows = await listHandoffsToCarry(context.db, LIMITS.sweepRows);
  const done = await forEachIsolated(context.log, { rows }, ({ tenant_id: tenantId, id }) =>
    carryHandoff(context, { tenantId, id }),
  );
  return done.length;
}

/** Takes one handoff as far as it can go now. */
export async function carryHandoff(context: Context, handoff: { tenantId: string; id: string }): Promise<void> {
  const written = await context.db.withTenant(handoff.tenantId, (tx) => carry(context, tx, handoff));
  for (const each of written) announceAppended(context, each);
}

interface Carrying {
  context: Context;
  tx: Tx;
  tenantId: string;
  row: HandoffRow;
}

async function carry(
  context: Context,
  tx: Tx,
  { tenantId, id }: { tenantId: string; id: string },
): Promise<Announcement[]> {
  const row = await lockWithRun(tx, id);
  if (!row || row.completed_at) return [];
  const carrying = { context, tx, tenantId, row };
  if (row.carried_by === 'workflow') return close(carrying, 'cancelled');
  if (row.status === 'initiated') return row.carried_by === 'run' ? begin(carrying, undefined) : follow(carrying);
  const target = row.target_run_id === null ? undefined : await findRun(tx, row.target_run_id);
  if (target && !isTerminal(target.status) && !isBetweenTurns(target)) return [];
  if (row.status === 'rejected') {
    return target && !isStopped(target) ? goBack(carrying, target) : close(carrying, 'cancelled');
  }
  if (target && !isTerminal(target.status)) return [];
  return close(carrying, target?.status === 'completed' ? 'completed' : 'failed');
}

/** Undefined if another process carried it on while this one waited for the run. */
async function lockWithRun(tx: Tx, id: string): Promise<HandoffRow | undefined> {
  const found = await findHandoff(tx, id);
  const runId = found?.carried_by === 'thread' ? runOf(found) : null;
  const run = runId === null ? undefined : await findRun(tx, runId);
  if (run) {
    await lockThread(tx, run.thread_id);
    await lockRun(tx, run.id);
  }
  const row = await lockHandoff(tx, id);
  return found && row && runOf(row) === runOf(found) ? row : undefined;
}

/** The run that has the work until another one takes it. */
function runOf({ status, source_run_id, target_run_id }: HandoffRow): string | null {
  return status === 'initiated' ? source_run_id : target_run_id;
}

async function close({ tx, row }: Carrying, to: 'completed' | 'failed' | 'cancelled'): Promise<Announcement[]> {
  await changeHandoff(tx, row.id, { to });
  return [];
}

/** Begins the target's run on the thread, once the source's has ended or waits for its next turn. */
async function follow(carrying: Carrying): Promise<Announcement[]> {
  const { tx, row } = carrying;
  const source = row.source_run_id === null ? undefined : await findRun(tx, row.source_run_id);
  if (!source || isStopped(source) || source.status === 'failed') return close(carrying, 'cancelled');
  if (!isTerminal(source.status) && !isBetweenTurns(source)) return [];
  if (!(await isHead(tx, source))) {
    return (await isHandoffOlder(tx, row.id, LIMITS.handoffSeconds)) ? close(carrying, 'cancelled') : [];
  }
  if (await isAnyBeingErased(tx, [source.id])) return close(carrying, 'cancelled');
  return begin(carrying, source);
}

/** A cancelled or erased run: nobody is meant to go on from it. */
function isStopped({ status, erased_at }: RunView): boolean {
  return status === 'cancelled' || erased_at !== null;
}

function isBetweenTurns({ status, open_turn_id }: RunView): boolean {
  return status === 'awaiting_human' && open_turn_id === null;
}

/** Whether nothing else has begun on the thread since. */
async function isHead(tx: Tx, run: RunView): Promise<boolean> {
  return (await lockThread(tx, run.thread_id))?.head_run_id === run.id;
}

/** Begins the target's run; if it cannot take one, that is a rejection. */
async function begin(carrying: Carrying, source: RunView | undefined): Promise<Announcement[]> {
  const { tx, row } = carrying;
  try {
    return await asOne(tx, () => take(carrying, source));
  } catch (error) {
    if (!(error instanceof DroverError)) throw error;
    const rejection = { code: error.code, message: error.message };
    const isReturning = source !== undefined;
    await changeHandoff(tx, row.id, { to: 'rejected', rejection, isReturning });
    return source ? goBack({ ...carrying, row: { ...row, rejection } }, source) : [];
  }
}

async function take(carrying: Carrying, source: RunView | undefined): Promise<Announcement[]> {
  const { tx, row } = carrying;
  const ended = source ? await endSource(carrying, source) : [];
  const target = await findAgent(tx, row.target_agent_id, row.workspace_id);
  if (!target) throw notFound('The agent');
  mustTake(target);
  const level = autonomyOf(target.definition);
  const written = await start(carrying, { agentId: target.id, level, source, message: await briefOf(tx, row) });
  await changeHandoff(tx, row.id, { to: 'accepted', run_id: written.runId });
  const payload = { ...aboutOf(row), run_id: written.runId, agent_id: target.id };
  return [...ended, await tell(carrying, written, { type: 'handoff.accepted', actor: 'system', payload })];
}

/** Lets the source go on in the next run of the thread. If it cannot take one, the conversation stays where it is. */
async function goBack(carrying: Carrying, last: RunView): Promise<Announcement[]> {
  const { tx, row } = carrying;
  try {
    return await asOne(tx, () => takeBack(carrying, last));
  } catch (error) {
    if (!(error instanceof DroverError)) throw error;
    await noteReturned(tx, row.id, null);
    return stay(carrying, last);
  }
}

async function takeBack(carrying: Carrying, last: RunView): Promise<Announcement[]> {
  const { tx, row } = carrying;
  const ended = isTerminal(last.status) ? [] : await endSource(carrying, last);
  if (!(await isHead(tx, last))) throw conflict('The conversation has gone on since.');
  const agent = await findAgent(tx, row.source_agent_id, row.workspace_id);
  if (!agent) throw notFound('The agent');
  const level = autonomyOf(agent.definition);
  const message = await rejectionNote(tx, row);
  const written = await start(carrying, { agentId: agent.id, level, source: last, message });
  await noteReturned(tx, row.id, written.runId);
  const payload = { ...aboutOf(row), error: row.rejection ?? { code: 'rejected', message: '' } };
  return [...ended, await tell(carrying, written, { type: 'handoff.rejected', actor: 'system', payload })];
}

/** Begins the next turn with a message that waited for the end of the last one; without one, ends the run. */
async function stay({ tx, tenantId }: Carrying, { id }: RunView): Promise<Announcement[]> {
  return appendBetweenTurns({ tx, tenantId }, id, (run) => {
    const next = turnOfQueued(run);
    return next.events.length > 0 ? next : ending(run);
  });
}

async function endSource({ tx, tenantId }: Carrying, { id }: RunView): Promise<Announcement[]> {
  return appendBetweenTurns({ tx, tenantId }, id, ending);
}

function ending({ status }: RunRow): AppendedChange {
  return { events: endAsCompleted({ status }, 'system', 'handoff') };
}

/** Does nothing if the run has ended or is at work. */
async function appendBetweenTurns(
  { tx, tenantId }: Pick<Carrying, 'tx' | 'tenantId'>,
  runId: string,
  change: (run: RunRow) => AppendedChange,
): Promise<Announcement[]> {
  const appended = await appendIn(tx, { tenantId, runId }, (run) =>
    isTerminal(run.status) || run.open_turn_id !== null ? null : change(run),
  );
  return appended ? [{ ...appended, runId }] : [];
}

interface NextRun {
  agentId: string;
  /** The agent's autonomy level. */
  level: number;
  /** The run whose conversation goes on; undefined for a run without one. */
  source: RunView | undefined;
  message: string;
}

async function start({ context, tx, tenantId, row }: Carrying, next: NextRun): Promise<Announcement> {
  const { source, agentId, message, level } = next;
  const untrusted = (await isHandedUntrusted(tx, row)) && { untrusted: true as const };
  // Messages that waited for the end of the last turn go along.
  const { written } = await writeRun(context, tx, {
    tenantId,
    workspaceId: row.workspace_id,
    agentId,
    threadId: source?.thread_id,
    takesHandoffOn: true,
    input: { message, ...untrusted },
    config: source
      ? configAfter(source, { level, budget: await restOfBudget(tx, { ...source, tenant_id: tenantId }) })
      : {},
    mayRaiseAutonomy: false,
    requestedBy: row.requested_by ?? undefined,
  });
  return written;
}

/** Carries the run's settings over to the next one: session or user, autonomy level, and the rest of its budget. */
function configAfter(
  run: RunView,
  { level, budget }: { level: number; budget: RunBudget | undefined },
): RequestedConfig & Pick<RunConfig, 'session' | 'for_user'> {
  const { session, for_user, autonomy_level, max_turns } = run.config;
  return {
    keep_open: run.keep_open,
    ...(session && { session }),
    ...(for_user !== undefined && { for_user }),
    ...(autonomy_level !== undefined && { autonomy_level: Math.min(autonomy_level, level) }),
    ...(budget && { budget }),
    ...(max_turns !== undefined && { max_turns }),
  };
}

/** Adds a handoff event to the log of a run that was just written. */
async function tell({ tx, tenantId }: Carrying, written: Announcement, event: NewEvent): Promise<Announcement> {
  const { runId } = written;
  const appended = await appendIn(tx, { tenantId, runId }, (run) => ({
    events: [{ ...event, turn_id: run.open_turn_id ?? undefined }],
  }));
  return { ...written, seq: appended?.seq ?? written.seq };
}

function aboutOf({ id, task_id }: HandoffRow) {
  return { handoff_id: id, ...(task_id !== null && { task_id }) };
}
