/** Commits a drive to its log: one commit, one transaction, one round trip. */
import { newId } from '../../../lib/new-id.ts';
import type { CallState } from '../../../core/state.ts';
import { originOf } from '../../../core/origin.ts';
import type { MessageRow } from '../../../db/claim-run.ts';
import type { CommitResult, OutboxRow, ReservationChange, RunChange, StoredMessage } from '../../../db/commit-run.ts';
import type { InitialCommit } from '../../../jobs/slot-reservation.ts';
import { TOOL_CALLS } from '../../../jobs/tool-calls.ts';
import { TURNS } from '../../../jobs/turns.ts';
import { toCreation } from './initial-commit.ts';
import { checkpointRow } from '../../run-log/checkpoint.ts';
import { makeDispatched } from './dispatch-calls.ts';
import { commitOnce, retryWindowOf } from './commit-once.ts';
import { LostRunError } from '../../run-log/errors.ts';
import { delegationJobs, joinJobs } from '../../run-log/join-parent.ts';
import { advance, countedMessages, type Pending } from '../../run-log/run-log.ts';
import { learnFromTurn } from './learn-from-turn.ts';
import { reauthorizePending, reload } from './load.ts';
import { reportEvents, type ReportedRun } from '../../run-log/report-events.ts';
import { toRunChange } from '../../run-log/run-change.ts';
import { retryWhileUnavailable } from '../../run-log/retry-while-unavailable.ts';
import { newUncommitted, traceOf, type Drive } from './drive-state.ts';

/**
 * How a commit releases the run: dormant until something arrives, paused until the suspension is lifted, or with a job that
 * continues it: at once, after a delay, after calls. A parked run is dormant, too.
 */
type Release = 'dormant' | 'pause' | 'again' | { afterMs: number } | { awaitCalls: CallState[] } | Park;

/** Until a model's provider is back, or the run gives up. */
export interface Park {
  park: NonNullable<RunChange['park']>;
}

const MOST_RETRIES = 20;

/**
 * Commits what is pending. If others have appended meanwhile, or the policy epoch has advanced, nothing was written: folds
 * their events, or gates the calls again, and retries. With a release it returns false instead, so that the caller decides
 * anew.
 */
export async function commit(drive: Drive, release?: Release): Promise<boolean> {
  for (let attempt = 0; attempt < MOST_RETRIES; attempt++) {
    const change = toChange(drive, release);
    const outcome = await (drive.uncommitted.initialCommit
      ? commitInitial(drive, drive.uncommitted.initialCommit, change)
      : commitOnce(drive, change));
    if (outcome.ok) {
      committed(drive, change, outcome);
      return true;
    }
    if (outcome.why !== 'policy_epoch' && outcome.why !== 'behind') throw new LostRunError(outcome.why);
    const catchUp = outcome.why === 'policy_epoch' ? reauthorizePending : reload;
    await retryWhileUnavailable(() => catchUp(drive), retryWindowOf(drive));
    if (outcome.why === 'behind') {
      drive.uncommitted.takeBack?.();
      drive.uncommitted.reconsider?.();
    }
    if (!release) continue;
    // The calls that the run is to wait for may have changed or gone: commit the model's answer before anything follows it.
    if (outcome.why === 'policy_epoch') await commit(drive);
    return false;
  }
  throw new Error(`others kept appending to run ${drive.run.id}`);
}

/** Makes the commit that creates the run. Not retried: nothing is lost without it, and a client is waiting. */
async function commitInitial(drive: Drive, initialCommit: InitialCommit, change: RunChange): Promise<CommitResult> {
  const outcome = await drive.context.commit(change);
  initialCommit.written(outcome);
  if (!outcome.ok) throw new LostRunError(outcome.why);
  return outcome;
}

/** Everything that a commit writes: rows, the lease, stored data, and jobs to follow. */
function toChange(drive: Drive, release: Release | undefined): RunChange {
  const { run } = drive;
  const { pending, base } = drive.log;
  const { initialCommit } = drive.uncommitted;
  const events = initialCommit ? [...initialCommit.events, ...pending.events] : pending.events;
  const { id, tenant_id, workspace_id } = run;
  const change: RunChange = {
    ...toRunChange({ id, tenant_id, workspace_id, last_seq: initialCommit ? 0 : base.seq }, events),
    fence: drive.fence,
    ...leaseAfter(drive, release),
    ...rowsOf(drive, release),
    ...titleAfter(drive),
  };
  if (beginsCalls(pending)) change.policy_epoch = drive.governance.epoch;
  if (pending.rateLimiter) change.rate_limiter = pending.rateLimiter;
  if (pending.checkpoint) change.checkpoint = checkpointOf(drive, pending.checkpoint);
  const jobs = [...jobsAfter(drive, release), ...joinJobs(run, events), ...delegationJobs(run, events)];
  if (jobs.length > 0) change.outbox = jobs;
  learnFromTurn(drive, change);
  return initialCommit ? { ...change, ...toCreation(initialCommit, change) } : change;
}

/** Whether the lease is renewed or released. */
function leaseAfter({ context, log }: Drive, release: Release | undefined): Partial<RunChange> {
  if (!release) return { lease_ms: context.config.leaseMs };
  if (isPark(release)) return { release: true, dormant: true, park: release.park };
  // Beside calls that have their jobs, the run has nothing to do until the people it asks act, or the calls end.
  const isAsking = typeof release === 'object' && 'awaitCalls' in release && log.state.status === 'awaiting_human';
  return release === 'dormant' || isAsking ? { release: true, dormant: true } : { release: true };
}

/** Rows stored beside the events; empty lists are left out. */
function rowsOf(drive: Drive, release: Release | undefined): Partial<RunChange> {
  const { pending } = drive.log;
  const rows = {
    messages: countedMessages(drive.log).map(toStored),
    new_calls: pending.newCalls,
    calls: pending.calls,
    reservations: [...pending.reservations, ...(release ? releaseOf(drive) : [])],
    audit: auditOf(drive),
    waits: pending.waits,
    close_waits: pending.closedWaits,
  };
  return Object.fromEntries(Object.entries(rows).filter(([, of]) => of.length > 0)) as Partial<typeof rows>;
}

/** Titles the thread by its first turn. Threads of children are not listed, and need none. */
function titleAfter(drive: Drive): Partial<RunChange> {
  const { run, log } = drive;
  if (run.parent_run_id !== null || !log.pending.events.some(({ type }) => type === 'turn.completed')) return {};
  return isFirstTurn(drive) ? { title_of: run.thread_id } : { title_if_first: run.thread_id };
}

function checkpointOf({ tenantId, run, log, limits }: Drive, { id, trigger }: NonNullable<Pending['checkpoint']>) {
  return checkpointRow({
    tenantId,
    runId: run.id,
    parentId: log.lastCheckpointId,
    trigger,
    state: log.state,
    chain: log.messages.at(-1)?.chain ?? log.before.chain,
    id,
    entryPoint: limits.graph?.entryPoint,
  });
}

/** Audits call batches of a session that execute automatically; approved ones are audited with their approval. */
function auditOf({ run, log }: Drive): NonNullable<RunChange['audit']> {
  const { autonomy_level, session } = run.config;
  if (session === undefined) return [];
  const { user_id } = session;
  return log.pending.events.flatMap((event) => {
    if (event.type !== 'plan.proposed' || !event.payload.auto_executing) return [];
    const { plan_id: target_id, steps } = event.payload;
    const details = { session_id: run.thread_id, user_id, autonomy_level, automatic: true, tools: steps.length };
    return [{ id: newId(), action: 'plan.executed' as const, target_type: 'plan', target_id, details }];
  });
}

/**
 * Context for reporting events. Names the calls of the step at the last commit and those requested by this one; only names of
 * existing tools are reported.
 */
function reportedRun({ tenantId, run, log, tools }: Drive): ReportedRun {
  const nameOf = (id: string) => {
    const requested = log.pending.events.find(
      (event) => event.type === 'tool.requested' && event.payload.tool_call_id === id,
    );
    if (requested?.type === 'tool.requested') return requested.payload.name;
    return log.base.calls.find((call) => call.id === id)?.name;
  };
  const toolOf = (id: string) => tools.get(nameOf(id) ?? '')?.name;
  return { tenantId, runId: run.id, agentId: run.agent_id, toolOf };
}

/** Releases the reservation of an announced model call that this driver does not make: the next driver reserves anew. */
function releaseOf({ step: { reservation } }: Drive): ReservationChange[] {
  return reservation?.call ? [{ step: reservation.step, settle: 'released' }] : [];
}

/** Whether this is surely the thread's first turn: saves looking at its turns. */
function isFirstTurn({ run, log }: Drive): boolean {
  return run.thread_place === 1 && log.state.turnCount === 1;
}

/** Whether something leaves the process after the commit: forbidden under an outdated policy epoch. */
function beginsCalls({ newCalls, events }: Pending): boolean {
  return newCalls.length > 0 || events.some(({ type }) => type === 'model.called' || type === 'tool.started');
}

/** Outcomes of calls are stored in the ledger, not with the message. */
function toStored({ ordinal, role, content, chain, origin, trust = 'trusted' }: MessageRow): StoredMessage {
  return { ordinal, role, content, chain, origin: originOf({ role, content, origin }), trust };
}

/** Whether the run only waits for the end of an outage. */
export function isPark(release: Release | undefined): release is Park {
  return typeof release === 'object' && 'park' in release;
}

/** The jobs that continue the run; none if it becomes dormant, paused or parked. */
function jobsAfter(drive: Drive, release: Release | undefined): OutboxRow[] {
  if (!release || release === 'dormant' || release === 'pause' || isPark(release)) return [];
  const traceparent = traceOf(drive);
  const turnId = drive.log.state.turn?.id;
  const ids = {
    tenantId: drive.tenantId,
    runId: drive.run.id,
    ...(turnId && { turnId }),
    ...(traceparent && { traceparent }),
  };
  const turn: OutboxRow = { id: newId(), queue: TURNS.name, at_position: true, payload: ids };
  if (release === 'again') return [turn];
  if ('afterMs' in release) return [{ ...turn, delay_ms: release.afterMs }];
  const { steps: step } = drive.log.state;
  const { awaitCalls } = release;
  // Several calls of one answer become children of the job that continues the turn. The database decides whether it continues.
  const isFlow = awaitCalls.length > 1;
  const calls = awaitCalls.map(({ id: callId, attempt }) => ({
    id: newId(),
    queue: TOOL_CALLS.name,
    job_id: TOOL_CALLS.id({ callId, attempt }),
    payload: { ...ids, callId, attempt, step, policyEpoch: drive.step.gatedAt.get(callId) },
    ...(isFlow && { parent: { queue: TURNS.name, at_position: true as const } }),
  }));
  return isFlow ? [turn, ...calls] : calls;
}

interface Committed {
  seq: number;
  fence: number;
  at: string;
  back_off_ms?: number;
}

function committed(drive: Drive, change: RunChange, result: Committed): void {
  const { rateLimiter, events } = drive.log.pending;
  reportEvents(drive.context, reportedRun(drive), events);
  // The events that create a run finish nothing, but they count.
  drive.context.traces?.committed({
    tenantId: drive.tenantId,
    runId: drive.run.id,
    seq: result.seq,
    events: [...(drive.uncommitted.initialCommit?.events ?? []), ...events],
  });
  // A commit that was found in the log has no reading of the rate limiter, which is read separately then.
  if (rateLimiter && result.back_off_ms !== undefined) {
    drive.step.backOff = { rateLimiter, waitMs: result.back_off_ms };
  }
  advance(drive.log, change.events.length > 0 ? result.at : undefined);
  drive.uncommitted = newUncommitted();
  if (result.seq !== drive.log.base.seq) throw new Error(`run ${drive.run.id} was committed at ${result.seq}`);
  makeDispatched(drive, events);
  if (change.outbox) void drive.context.outbox.send(drive.run.id, result, change.outbox);
  if (change.events.length === 0) return;
  if (!change.in_place) drive.onProgress();
  const advanced = { subject: drive.run.id, kind: 'advanced', seq: result.seq } as const;
  // The turn may ask the same people as before, and have more to show.
  if (changesTurn(change) || change.dormant) drive.context.bus.publish(advanced);
  // Nobody can watch a run before it exists, and watchers first read its log.
  else if (!change.create) drive.context.bus.publish({ ...advanced, isWorking: true });
}

/** Whether a turn has begun, ended or asks something; for the commit that creates the run: has ended or asks. */
function changesTurn({ create, rows }: RunChange): boolean {
  return (rows?.['turns'] ?? []).some(
    ({ insert, set }) =>
      set?.['status'] !== undefined || (insert !== undefined && (!create || insert['status'] !== 'running')),
  );
}
