/** Appends to a run from outside its driver: under the row's lock; then sends jobs and tells the bus. */
import { checkEvent, type NewEvent } from '../../core/events.ts';
import { notFound } from '../../core/errors.ts';
import type { Tx } from '../../db/database.ts';
import { lockRun } from '../../db/runs.ts';
import type { RunRow } from '../../db/claim-run.ts';
import { mustCommitRun, type CallChange, type NewWait, type OutboxRow, type RunChange } from '../../db/commit-run.ts';
import { TOOL_CALLS } from '../../jobs/tool-calls.ts';
import { newId } from '../../lib/new-id.ts';
import type { RunLogContext } from './run-log-context.ts';
import { joinJobs } from './join-parent.ts';
import { reportEvents } from './report-events.ts';
import { toRunChange } from './run-change.ts';
import { withoutContent } from './settlement.ts';

export interface Appended {
  seq: number;
  fence: number;
  run: RunRow;
  events: readonly NewEvent[];
  /** Jobs that the commit writes to the outbox. */
  outbox: OutboxRow[];
}

/** Returns what to append; null if there is nothing to do. */
export type Act = (run: RunRow, tx: Tx) => Promise<AppendedChange | null> | AppendedChange | null;

export interface AppendedChange {
  events: NewEvent[];
  bump_fence?: boolean;
  release?: boolean;
  calls?: CallChange[];
  waits?: NewWait[];
  close_waits?: string[] | true;
  checkpoint?: Record<string, unknown>;
  outbox?: OutboxRow[];
  continuation?: OutboxRow | undefined;
  messages?: NonNullable<RunChange['messages']>;
  title_if_first?: string;
  dormant?: true;
  /** Other writes of the transaction, already sent. */
  along?: Promise<unknown>;
}

/** Locks the run, lets `act` decide, and commits its change in the same transaction. Sends nothing: see `announceAppended`. */
export async function appendIn(tx: Tx, ref: { tenantId: string; runId: string }, act: Act): Promise<Appended | null> {
  return appendLocked(tx, await lockRun(tx, ref.runId), { act, how: 'query' });
}

/** Like `appendIn`, but the change is the transaction's last statement and commits it: nothing may follow. */
export async function appendLast(tx: Tx, ref: { tenantId: string; runId: string }, act: Act): Promise<Appended | null> {
  return appendLocked(tx, await lockRun(tx, ref.runId), { act, how: 'last' });
}

/** `how`: whether the change commits the transaction. */
async function appendLocked(
  tx: Tx,
  run: RunRow | undefined,
  { act, how }: { act: Act; how: 'query' | 'last' },
): Promise<Appended | null> {
  if (!run) throw notFound('The run');
  const wanted = await act(run, tx);
  // Events for an erased run come too late, and are dropped; the ledger still records how a call has ended.
  if (!wanted || (run.erased_at && wanted.events.length > 0)) return null;
  const change = run.erased_at && wanted.calls ? { ...wanted, calls: wanted.calls.map(withoutContent) } : wanted;
  const { events, along, ...rest } = change;
  const jobs = [...(change.outbox ?? []), ...joinJobs(run, events), ...cancelJobs(run, change.calls ?? [])];
  const toSend = jobs.length > 0 && { outbox: jobs };
  const committed = mustCommitRun(tx, { ...toRunChange(run, events.map(checkEvent)), ...rest, ...toSend }, how);
  const [result] = await Promise.all([committed, along]);
  const outbox = [...jobs, ...(result.continued && change.continuation ? [change.continuation] : [])];
  return { seq: result.seq, fence: result.fence, run, events, outbox };
}

/** Jobs that cancel work begun elsewhere by calls that are now settled without it. */
function cancelJobs({ id: runId, tenant_id: tenantId }: RunRow, calls: readonly CallChange[]): OutboxRow[] {
  const left = calls.filter(({ set }) => set['remote'] != null && set['status'] !== 'pending');
  return left.map(({ id: callId }) => ({
    id: newId(),
    queue: TOOL_CALLS.name,
    job_id: `${callId}-cancel`,
    payload: { tenantId, runId, callId },
  }));
}

/** Appends in a transaction of its own, then sends the jobs and tells the bus. */
export async function appendToRun(
  context: RunLogContext,
  ref: { tenantId: string; runId: string },
  act: Act,
): Promise<Appended | null> {
  return appendRead(context, ref, { read: () => Promise.resolve(), act: (run, tx) => act(run, tx) });
}

/** Like `appendToRun`, for an `act` that needs more data: the queries of `read` are sent along with the lock, and answered under it. */
export async function appendRead<T>(
  context: RunLogContext,
  ref: { tenantId: string; runId: string },
  { read, act }: { read: (tx: Tx) => Promise<T>; act: (run: RunRow, tx: Tx, found: T) => ReturnType<Act> },
): Promise<Appended | null> {
  const appended = await context.db.withTenant(ref.tenantId, async (tx) => {
    const [run, found] = await Promise.all([lockRun(tx, ref.runId), read(tx)]);
    return appendLocked(tx, run, { act: (locked) => act(locked, tx, found), how: 'last' });
  });
  if (appended) announceAppended(context, { ...appended, runId: ref.runId });
  return appended;
}

/** A committed position of a run, and its jobs. */
export interface Announcement {
  runId: string;
  seq: number;
  fence: number;
  outbox: readonly OutboxRow[];
  /** With the events, for metrics and log lines. */
  run?: RunRow;
  events?: readonly NewEvent[];
}

/** After a commit: sends its jobs, counts and logs what has ended, and announces the log's new position on the bus. */
export function announceAppended(
  context: RunLogContext,
  { runId, seq, fence, outbox, run, events = [] }: Announcement,
): void {
  if (run) {
    const tenantId = run.tenant_id;
    reportEvents(context, { tenantId, runId, agentId: run.agent_id }, events);
    context.traces?.committed({ tenantId, runId, seq, events });
  }
  if (outbox.length > 0) void context.outbox.send(runId, { seq, fence }, outbox);
  context.bus.publish({ subject: runId, kind: 'advanced', seq });
}
