/** The way from a drive to the log: one commit, one transaction, one round trip. */
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
import { newUncommitted, type Drive } from './drive-state.ts';

/**
 * Gives the run up for others in the same commit: until something comes for it, until the suspension is lifted, or with a job
 * that goes on: at once, after a while, after calls. A run that is parked is dormant, too.
 */
type HandOver = 'dormant' | 'pause' | 'again' | { afterMs: number } | { awaitCalls: CallState[] } | Park;

/** Until a model's provider is back, or the run gives up. */
export interface Park {
  park: NonNullable<RunChange['park']>;
}

const MOST_RETRIES = 20;

/**
 * Commits what is pending. Where others have appended meanwhile, or the tenant's policy epoch has advanced, nothing was
 * written: their events are folded first, or the calls gated again, and the commit is tried again; with a hand-over it
 * answers false instead, so that the caller decides anew.
 */
export async function commit(drive: Drive, handOver?: HandOver): Promise<boolean> {
  for (let attempt = 0; attempt < MOST_RETRIES; attempt++) {
    const change = toChange(drive, handOver);
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
    if (outcome.why === 'behind') drive.uncommitted.reconsider?.();
    if (!handOver) continue;
    // The calls of a hand-over may be others now, or none: the model's answer is committed before anything follows it.
    if (outcome.why === 'policy_epoch') await commit(drive);
    return false;
  }
  throw new Error(`others kept appending to run ${drive.run.id}`);
}

/** Commits what creates the run. It is not retried: nothing is lost without it, and a client waits for the answer. */
async function commitInitial(drive: Drive, initialCommit: InitialCommit, change: RunChange): Promise<CommitResult> {
  const outcome = await drive.context.commit(change);
  initialCommit.written(outcome);
  if (!outcome.ok) throw new LostRunError(outcome.why);
  return outcome;
}

/** All that a commit writes: what the events mean for rows, whether the driver keeps the run, what is stored beside, and what follows. */
function toChange(drive: Drive, handOver: HandOver | undefined): RunChange {
  const { run } = drive;
  const { pending, base } = drive.log;
  const { initialCommit } = drive.uncommitted;
  const events = initialCommit ? [...initialCommit.events, ...pending.events] : pending.events;
  const { id, tenant_id, workspace_id } = run;
  const change: RunChange = {
    ...toRunChange({ id, tenant_id, workspace_id, last_seq: initialCommit ? 0 : base.seq }, events),
    fence: drive.fence,
    ...leaseAfter(drive, handOver),
    ...rowsOf(drive, handOver),
    ...titleAfter(drive),
  };
  if (beginsCalls(pending)) change.policy_epoch = drive.governance.epoch;
  if (pending.rateLimiter) change.rate_limiter = pending.rateLimiter;
  if (pending.checkpoint) change.checkpoint = checkpointOf(drive, pending.checkpoint);
  const jobs = [...jobsAfter(drive, handOver), ...joinJobs(run, events), ...delegationJobs(run, events)];
  if (jobs.length > 0) change.outbox = jobs;
  learnFromTurn(drive, change);
  return initialCommit ? { ...change, ...toCreation(initialCommit, change) } : change;
}

/** What becomes of the lease. */
function leaseAfter({ context }: Drive, handOver: HandOver | undefined): Partial<RunChange> {
  if (!handOver) return { lease_ms: context.config.leaseMs };
  if (isPark(handOver)) return { release: true, dormant: true, park: handOver.park };
  return handOver === 'dormant' ? { release: true, dormant: true } : { release: true };
}

/** What is stored beside the events; lists with nothing in them are left out. */
function rowsOf(drive: Drive, handOver: HandOver | undefined): Partial<RunChange> {
  const { pending } = drive.log;
  const rows = {
    messages: countedMessages(drive.log).map(toStored),
    new_calls: pending.newCalls,
    calls: pending.calls,
    reservations: [...pending.reservations, ...(handOver ? releaseOf(drive) : [])],
    audit: auditOf(drive),
    waits: pending.waits,
    close_waits: pending.closedWaits,
  };
  return Object.fromEntries(Object.entries(rows).filter(([, of]) => of.length > 0)) as Partial<typeof rows>;
}

/** The thread gets a title from its first turn. A child's thread is in no list of threads. */
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

/** Call batches of a session that run by themselves: where a person approves one, that is audited. */
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

/** The calls of the step that the log was in, and those that this commit has requested. Only a tool that there is has a name to be told. */
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

/** Of a model call that is announced and that this driver does not make: whoever goes on sets aside anew. */
function releaseOf({ step: { reservation } }: Drive): ReservationChange[] {
  return reservation?.call ? [{ step: reservation.step, settle: 'released' }] : [];
}

/** Whether the thread has had no turn before: no look at them is needed. */
function isFirstTurn({ run, log }: Drive): boolean {
  return run.thread_place === 1 && log.state.turnCount === 1;
}

/** Whether something leaves the process after the commit, which must not happen under an outdated policy epoch. */
function beginsCalls({ newCalls, events }: Pending): boolean {
  return newCalls.length > 0 || events.some(({ type }) => type === 'model.called' || type === 'tool.started');
}

/** The outcomes of its calls are the ledger's, not the message's. */
function toStored({ ordinal, role, content, chain, origin, trust = 'trusted' }: MessageRow): StoredMessage {
  return { ordinal, role, content, chain, origin: originOf({ role, content, origin }), trust };
}

/** Whether a run is handed over to nobody but the end of an outage. */
export function isPark(handOver: HandOver | undefined): handOver is Park {
  return typeof handOver === 'object' && 'park' in handOver;
}

/** Jobs that go on with the run, where it is handed over to some. */
function jobsAfter(drive: Drive, handOver: HandOver | undefined): OutboxRow[] {
  if (!handOver || handOver === 'dormant' || handOver === 'pause' || isPark(handOver)) return [];
  const traceparent = drive.traceparent;
  const turnId = drive.log.state.turn?.id;
  const ids = {
    tenantId: drive.tenantId,
    runId: drive.run.id,
    ...(turnId && { turnId }),
    ...(traceparent && { traceparent }),
  };
  const turn: OutboxRow = { id: newId(), queue: TURNS.name, at_position: true, payload: ids };
  if (handOver === 'again') return [turn];
  if ('afterMs' in handOver) return [{ ...turn, delay_ms: handOver.afterMs }];
  const { steps: step } = drive.log.state;
  const { awaitCalls } = handOver;
  // Calls of one answer are the children of the turn that goes on after them. Whether it does, the database decides.
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
  // A commit that was found in the log says nothing of the rate limiter, which is looked at by itself then.
  if (rateLimiter && result.back_off_ms !== undefined) {
    drive.step.backOff = { rateLimiter, waitMs: result.back_off_ms };
  }
  advance(drive.log, change.events.length > 0 ? result.at : undefined);
  drive.uncommitted = newUncommitted();
  if (result.seq !== drive.log.base.seq) throw new Error(`run ${drive.run.id} was committed at ${result.seq}`);
  makeDispatched(drive, events);
  if (change.outbox) void drive.context.outbox.send(drive.run.id, result, change.outbox);
  if (change.events.length === 0) return;
  const advanced = { subject: drive.run.id, kind: 'advanced', seq: result.seq } as const;
  if (changesTurn(change)) drive.context.bus.publish(advanced);
  // Of a run that there was not yet nobody has heard, and whoever does looks at its log first.
  else if (!change.create) drive.context.bus.publish({ ...advanced, isWorking: true });
}

/** Whether a turn has begun, ended or come to ask something; in the commit that creates the run, whether it has ended or asks. */
function changesTurn({ create, rows }: RunChange): boolean {
  return (rows?.['turns'] ?? []).some(
    ({ insert, set }) =>
      set?.['status'] !== undefined || (insert !== undefined && (!create || insert['status'] !== 'running')),
  );
}
